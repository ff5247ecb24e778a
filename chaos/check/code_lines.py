"""The lines of the job's code that made what did not come back, saved it, and read the save."""

from collections.abc import Iterator, Sequence

from chaos.check.analysis import RunAnalysis
from chaos.check.census import Candidate, resume_of
from chaos.check.diagnosis import CAUSES, EFFECTS
from chaos.check.fix_hints import is_unseen
from chaos.model.diagnosis import Resume
from chaos.model.event import CodeLine, FileSaved, NamesGiven
from chaos.model.events.state import IN_LOADER
from chaos.model.history import History
from chaos.model.verdict import CheckResult, JobLine, Role
from chaos.words import listed

_EACH_MAX = 2  # lines that save, and lines that read
_MADE_MAX = 3


def code_lines(
    analysis: RunAnalysis, broken: CheckResult | None, resumes: Sequence[Resume]
) -> tuple[JobLine, ...]:
    """Return the lines behind the first broken check; none where no resume is wrong."""
    if broken is None or broken.check not in (*CAUSES, *EFFECTS):
        return ()
    attempt = _attempt(analysis, resumes)
    if attempt is None:
        return ()
    # Of a part that may have been saved as it was it is not said that it belongs in a save.
    lost = (a for a in broken.anomalies if not is_unseen(a.message))
    parts = [part for anomaly in lost for part in anomaly.parts]
    return *_made(analysis, parts), *_files(analysis, attempt)


def lines_of_values(
    analysis: RunAnalysis, values: Sequence[Candidate], lines: Sequence[JobLine]
) -> tuple[JobLine, ...]:
    """Return the lines of a run with those that made these values in place of those of parts."""
    made = _names(analysis)
    if made is None:
        return tuple(lines)
    found: dict[CodeLine, list[str]] = {}
    # A value of one step alone was computed from the others that are lost.
    for value in [value for value in values if value.lasts] or values:
        if (code := _made_in(made, value.path.removesuffix(IN_LOADER))) is not None:
            # What a loader's processes were started with belongs in no save.
            found.setdefault(code, []).extend(() if value.is_copy else (value.path,))
    first = [_line(analysis, "made", code, paths) for code, paths in found.items()]
    return (*first[:_MADE_MAX], *(line for line in lines if line.role != "made"))


def belongs(lines: Sequence[JobLine]) -> str:
    """Return in a sentence what belongs in the lines that save and read; empty if not known."""
    made = [line for line in lines if line.names]
    roles = {line.role: line for line in reversed(lines)}
    if not made or "saved" not in roles:
        return ""
    is_whole = all(line.part for line in made)
    what = [f"`{name}{'.state_dict()' * is_whole}`" for line in made for name in line.names]
    belong, it = ("belongs", "it") if len(what) == 1 else ("belong", "them")
    text = f"{listed(what)} {belong} in what {roles['saved'].where} saves"
    if "read" in roles:
        how = f"`load_state_dict` takes {it}" if is_whole else f"the job sets {it} again"
        text += f", and {how} after {roles['read'].where}"
    return text


def _made_in(names: NamesGiven, path: str) -> CodeLine | None:
    """Return the line that made the object that has a value, or else that gives it its name."""
    holder = path.rpartition(".")[0]
    return names.lines.get(holder) or names.lines.get(path)


def _made(analysis: RunAnalysis, parts: Sequence[str]) -> Iterator[JobLine]:
    names = _names(analysis)
    heads = dict.fromkeys(head for part in parts if (head := _head(part, names)))
    for head in list(heads)[:_MADE_MAX]:
        assert names is not None
        path = names.parts[head]
        yield _line(analysis, "made", names.lines[path], [path], head)


def _head(part: str, names: NamesGiven | None) -> str:
    """Return the object that a part of the state is of, if the line that made it is known."""
    known = () if names is None else names.parts
    fits = (head for head in known if part == head or part.startswith(f"{head}."))
    return max(fits, key=len, default="")


def _names(analysis: RunAnalysis) -> NamesGiven | None:
    both: tuple[History | None, ...] = (analysis.history, analysis.counterpart)
    return next((e for of in both if of is not None for _, e in of.of(NamesGiven)), None)


def _attempt(analysis: RunAnalysis, resumes: Sequence[Resume]) -> int | None:
    """Return the first attempt whose resume is wrong."""
    unsound = next((resume.attempt for resume in resumes if not resume.sound), None)
    if unsound is not None:
        return unsound
    return resume_of(analysis).attempt or None


def _files(analysis: RunAnalysis, attempt: int) -> Iterator[JobLine]:
    """Yield the lines that saved and that read the files of an attempt, of its first rank."""
    files = analysis.run.files
    ranks = sorted(rank for of, rank in files.loads if of == attempt)
    loads = files.loads_of(attempt, ranks[0]) if ranks else ()
    origins = [(load, files.origin(load)) for _, load in loads]
    saves = [analysis.history[save.number].what for _, save in origins if save is not None]
    if not saves:
        before = [e for _, e in analysis.history.of(FileSaved) if e.attempt < attempt]
        saves = list(before[-1:])
    saved = [save.code for save in saves if isinstance(save, FileSaved)]
    read = [load.code for load, save in origins if save is not None]
    roles: tuple[tuple[Role, Sequence[CodeLine | None]], ...] = (("saved", saved), ("read", read))
    for role, codes in roles:
        for code in list(dict.fromkeys(filter(None, codes)))[:_EACH_MAX]:
            yield _line(analysis, role, code)


def _line(
    analysis: RunAnalysis, role: Role, code: CodeLine, names: Sequence[str] = (), part: str = ""
) -> JobLine:
    return JobLine(
        role=role,
        names=tuple(names),
        part=part,
        file=code.file.removeprefix(f"{analysis.plan.cwd.rstrip('/')}/"),
        line=code.line,
        first=code.first,
        around=code.around,
    )
