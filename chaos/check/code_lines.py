"""The lines of the job's code that made what did not come back, saved it, and read the save."""

from collections.abc import Collection, Iterator, Sequence

from chaos.check.analysis import RunAnalysis
from chaos.check.census import CensusDifference, find_examined_resume
from chaos.check.diagnosis import CAUSES, EFFECTS
from chaos.check.kinds.state import SAVED_OPTIMIZER, ModelRestructured, UntiedParameters
from chaos.model.diagnosis import Resume
from chaos.model.event import CodeLine, FileSaved, NamesGiven
from chaos.model.events.state import IN_LOADER, IS_PARAM_GROUPS, SHARED_STATE
from chaos.model.history import History
from chaos.model.verdict import CheckResult, JobLine, Role
from chaos.wording import join_names

_EACH_MAX = 2  # lines that save, and lines that read
_MADE_MAX = 3
_LINKS = (IS_PARAM_GROUPS, SHARED_STATE)
_STRUCTURE_KINDS = (ModelRestructured.kind, UntiedParameters.kind)


def find_code_lines(
    analysis: RunAnalysis, broken: CheckResult | None, resumes: Sequence[Resume]
) -> tuple[JobLine, ...]:
    """Return the lines behind the first broken check; none where no resume is wrong."""
    if broken is None or broken.check not in (*CAUSES, *EFFECTS):
        return ()
    attempt = _find_wrong_attempt(analysis, resumes)
    if attempt is None:
        return ()
    # Of a part that may have been saved as it was it is not said that it belongs in a save.
    # Nor of a model that was built otherwise, or whose optimizer was made before it was complete.
    anomalies = [
        anomaly
        for anomaly in broken.anomalies
        if not anomaly.is_unexplained and anomaly.kind not in _STRUCTURE_KINDS
    ]
    parts = [part for anomaly in anomalies for part in anomaly.parts]
    saved_parts = {
        part
        for anomaly in anomalies
        if anomaly.facts.get("hint") == SAVED_OPTIMIZER
        for part in anomaly.parts
    }
    lines = _find_part_lines(analysis, parts, saved_parts)
    return *lines, *_find_file_lines(analysis, attempt)


def find_value_lines(
    analysis: RunAnalysis, values: Sequence[CensusDifference], lines: Sequence[JobLine]
) -> tuple[JobLine, ...]:
    """Return the lines of a run with those that made these values in place of those of parts."""
    object_names = _find_object_names(analysis)
    if object_names is None:
        return tuple(lines)
    paths_by_line: dict[CodeLine, list[str]] = {}
    # A value of one step alone was computed from the others that are lost.
    for candidate in [candidate for candidate in values if candidate.is_lasting] or values:
        if (
            source_line := _find_source_line(object_names, candidate.path.removesuffix(IN_LOADER))
        ) is not None:
            # What a loader's processes were started with belongs in no save, nor what a link says.
            is_saved = not candidate.is_copy and not candidate.path.endswith(_LINKS)
            paths_by_line.setdefault(source_line, []).extend((candidate.path,) if is_saved else ())
    value_lines = [
        _build_line(analysis, "made", source_line, paths)
        for source_line, paths in paths_by_line.items()
    ]
    return (*value_lines[:_MADE_MAX], *(line for line in lines if line.role != "made"))


def describe_save_contents(lines: Sequence[JobLine]) -> str:
    """Return in a sentence what belongs in the lines that save and read; empty if not known."""
    named_lines = [line for line in lines if line.names and not line.is_saved]
    lines_by_role = {line.role: line for line in reversed(lines)}
    saved_names = [name for line in lines if line.is_saved for name in line.names]
    if saved_names and not named_lines and "read" in lines_by_role:
        calls = join_names([f"`{name}.load_state_dict`" for name in saved_names])
        verb, subject = ("belongs", "it is") if len(saved_names) == 1 else ("belong", "they are")
        return f"{calls} {verb} after {lines_by_role['read'].location}, once {subject} made"
    if not named_lines or "saved" not in lines_by_role:
        return ""
    has_parts = all(line.part for line in named_lines)
    expressions = [
        f"`{name}{'.state_dict()' * has_parts}`" for line in named_lines for name in line.names
    ]
    verb, pronoun = ("belongs", "it") if len(expressions) == 1 else ("belong", "them")
    text = f"{join_names(expressions)} {verb} in what {lines_by_role['saved'].location} saves"
    if "read" in lines_by_role:
        instruction = (
            f"`load_state_dict` takes {pronoun}" if has_parts else f"the job sets {pronoun} again"
        )
        text += f", and {instruction} after {lines_by_role['read'].location}"
    return text


def _find_source_line(names: NamesGiven, path: str) -> CodeLine | None:
    """Return the line that made the object that has a value, or else that gives it its name."""
    owner = path.rpartition(".")[0]
    return names.lines.get(owner) or names.lines.get(path)


def _find_part_lines(
    analysis: RunAnalysis, parts: Sequence[str], saved_parts: Collection[str]
) -> Iterator[JobLine]:
    """Yield the lines that made the objects of these parts, of which a file holds some."""
    names = _find_object_names(analysis)
    owners = dict.fromkeys(owner for part in parts if (owner := _find_owner(part, names)))
    saved_owners = {_find_owner(part, names) for part in saved_parts}
    for owner in list(owners)[:_MADE_MAX]:
        assert names is not None
        path = names.parts[owner]
        line = _build_line(analysis, "made", names.lines[path], [path], owner)
        yield line.replace(is_saved=owner in saved_owners)


def _find_owner(part: str, names: NamesGiven | None) -> str:
    """Return the object that a part of the state is of, if the line that made it is known."""
    known_parts = () if names is None else names.parts
    matching_owners = (
        owner for owner in known_parts if part == owner or part.startswith(f"{owner}.")
    )
    return max(matching_owners, key=len, default="")


def _find_object_names(analysis: RunAnalysis) -> NamesGiven | None:
    histories: tuple[History | None, ...] = (analysis.history, analysis.aligned_baseline)
    return next(
        (
            event
            for history in histories
            if history is not None
            for _, event in history.select_events(NamesGiven)
        ),
        None,
    )


def _find_wrong_attempt(analysis: RunAnalysis, resumes: Sequence[Resume]) -> int | None:
    """Return the first attempt whose resume is wrong."""
    wrong_attempt = next((resume.attempt for resume in resumes if not resume.sound), None)
    if wrong_attempt is not None:
        return wrong_attempt
    return find_examined_resume(analysis).attempt or None


def _find_file_lines(analysis: RunAnalysis, attempt: int) -> Iterator[JobLine]:
    """Yield the lines that saved and that read the files of an attempt, of its first rank."""
    files = analysis.run.files
    ranks = sorted(rank for load_attempt, rank in files.loads if load_attempt == attempt)
    loads = files.select_loads(attempt, ranks[0]) if ranks else ()
    origins = [(load, files.find_origin(load)) for _, load in loads]
    saves = [analysis.history[save.event_number].event for _, save in origins if save is not None]
    if not saves:
        earlier_saves = [
            event
            for _, event in analysis.history.select_events(FileSaved)
            if event.attempt < attempt
        ]
        saves = list(earlier_saves[-1:])
    save_lines = [save.code for save in saves if isinstance(save, FileSaved)]
    load_lines = [load.code for load, save in origins if save is not None]
    lines_by_role: tuple[tuple[Role, Sequence[CodeLine | None]], ...] = (
        ("saved", save_lines),
        ("read", load_lines),
    )
    for role, source_lines in lines_by_role:
        for source_line in list(dict.fromkeys(filter(None, source_lines)))[:_EACH_MAX]:
            yield _build_line(analysis, role, source_line)


def _build_line(
    analysis: RunAnalysis,
    role: Role,
    source_line: CodeLine,
    names: Sequence[str] = (),
    part: str = "",
) -> JobLine:
    return JobLine(
        role=role,
        names=tuple(names),
        part=part,
        file=source_line.file.removeprefix(f"{analysis.plan.cwd.rstrip('/')}/"),
        line=source_line.line,
        first=source_line.first,
        around=source_line.around,
    )
