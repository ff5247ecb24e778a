"""From scenario files to scenarios, with the checks that go beyond the schema.

Those are of choices, of references between a scenario's parts, and of its files. Choices are
checked on the plain values, before the records. Pydantic would check them only once everything
else is right, and for a trigger whose keys leave the choice open it would name the wrong record.
Each check uses the values that are there, so that a mistake elsewhere does not hide another.
"""

import json
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from chaos.errors import ScenarioError, UsageError
from chaos.faults.base import Fault
from chaos.model.fault_entry import FAULTS
from chaos.model.launcher import LAUNCHER_FACTS, find_launcher
from chaos.model.scenario import SOURCES, Dependency, Scenario
from chaos.model.trigger import KINDS, MOMENTS, OBJECT_MOMENTS
from chaos.plan.entries import is_drawn
from chaos.plan.make import count_nodes
from chaos.run.directory import DRAWN, is_recorded
from chaos.scenario_file.draws import build_worst_entries, find_draw_problems
from chaos.scenario_file.messages import find_nearest, quote_value, reword_errors
from chaos.scenario_file.yaml_lines import (
    Loc,
    Plain,
    YamlLines,
    YamlProblem,
    YamlSource,
    build_scenario_error,
    load_text,
    parse_source,
)

SUFFIX = ".chaos.yaml"


def find_scenarios(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the scenario files among `paths` and below them, each once; a folder's are sorted."""
    return tuple(dict.fromkeys(file for path in paths for file in _find_files(path)))


def load_scenario(path: Path) -> Scenario:
    """Return the scenario of one file; a `ScenarioError` lists all mistakes in it."""
    return _build_scenario(parse_source(load_text(path, "scenario")), path)


def load_scenarios(files: Iterable[Path]) -> dict[Path, Scenario]:
    """Return the scenario of each file; a `ScenarioError` lists the mistakes of all files."""
    scenarios, errors = dict[Path, Scenario](), list[ScenarioError]()
    for file in files:
        try:
            scenarios[file] = load_scenario(file)
        except ScenarioError as error:
            errors.append(error)
    if errors:
        errors[0].args = ("\n".join(map(str, errors)),)
        raise errors[0]
    return scenarios


def parse_scenario(value: Plain, *, path: Path, line: int) -> Scenario:
    """Return the scenario that plain values make; all mistakes are at the line that has them.

    It is for keywords of Python instead of a file; `path` is that of the program, to which the
    scenario's own paths are relative.
    """
    return _build_scenario(YamlSource(value=value, lines=YamlLines(values={(): line})), path)


def _build_scenario(source: YamlSource, path: Path) -> Scenario:
    if problems := list(_find_problems(source, path.parent)):
        raise build_scenario_error(path, problems)
    scenario = Scenario.model_validate_json(json.dumps(source.value))
    if is_drawn(scenario):
        value, lines = {**source.value, "faults": build_worst_entries(scenario)}, source.lines
        # What a seed may draw at worst must be possible too: a scenario that fails for one seed in
        # ten is a mistake of its file.
        problems = [*find_draw_problems(scenario, lines), *_find_cpu_problems(value, lines)]
        if problems:
            raise build_scenario_error(path, problems)
    return scenario


def _find_problems(source: YamlSource, folder: Path) -> Iterator[YamlProblem]:
    yield from source.problems
    value, lines = source.value, source.lines
    if not isinstance(value, dict):
        if not source.problems:
            text = f"a scenario must be a mapping, got {quote_value(value)}"
            yield YamlProblem(lines.find_value_line(()), text, "Begin with `scenario:` and `job:`.")
        return
    # One mistake, one message: a value that was not read is not also wrong or missing.
    unread_locs = [problem.loc for problem in source.problems]
    value, open_choices = resolve_choices(value, lines)
    open_choices = [problem for problem in open_choices if not _is_known(problem, unread_locs)]
    yield from open_choices
    known_locs = [*unread_locs, *(problem.loc for problem in open_choices)]
    for problem in (
        *_find_record_problems(value, source),
        *find_sense_problems(value, lines, folder=folder),
    ):
        if not _is_known(problem, known_locs):
            yield problem


def _is_known(problem: YamlProblem, known_locs: Sequence[Loc]) -> bool:
    return any(loc[: len(problem.loc)] == problem.loc for loc in known_locs)


def _find_record_problems(value: object, source: YamlSource) -> list[YamlProblem]:
    try:
        Scenario.model_validate_json(json.dumps(value))
    except ValidationError as error:
        return list(reword_errors(error.errors(include_url=False), source.lines))
    return []


def _find_files(path: Path) -> list[Path]:
    if not path.exists():
        hint = f"Give scenario files ({SUFFIX}) or folders that hold some."
        raise UsageError("there is no such file or folder", hint, location=str(path))
    if path.is_file():
        if not path.name.endswith(SUFFIX):
            hint = f"Scenario files end in {SUFFIX}."
            if path.suffix in (".py", ".sbatch"):
                hint += f" For a script:\n  chaos audit {shlex.quote(str(path))}"
            raise UsageError("this is not a scenario file", hint, location=str(path))
        return [path]
    files = sorted(
        file
        for file in path.rglob(f"*{SUFFIX}")
        if not is_drawn_file(file)
        and not is_recorded(file, root=path)
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )
    if not files:
        hint = f"Scenario files end in {SUFFIX}."
        raise UsageError("there is no scenario in this folder", hint, location=str(path))
    return files


def is_drawn_file(file: Path) -> bool:
    """Return whether a scenario was drawn for a run and lies in its folder: it is not a new one."""
    return file.name == DRAWN and file.with_name("plan.json").exists()


# Values in place of a misspelt key's, so that its place is known; of any other key it is 1.
_PLACEHOLDERS: dict[str, Any] = {"moment": "saving", "recovering_from": 0, "state": "RUNNING"}
_EXAMPLE = "Write `at: {epoch: 2, step: 5}`"


def resolve_choices(
    value: dict[str, Any], lines: YamlLines
) -> tuple[dict[str, Any], list[YamlProblem]]:
    """Return the scenario with every `at` of one kind, and the choices that are still open."""
    problems = list(_find_source_problems(value.get("job"), lines))
    faults = value.get("faults")
    if not isinstance(faults, list):
        return value, problems
    entries: list[Plain] = []
    for number, entry in enumerate(faults):
        loc = ("faults", number)
        problems += _find_fault_problems(entry, loc, lines)
        entries.append(entry)
        if isinstance(entry, dict) and "at" in entry:
            trigger, problem = _resolve_trigger(entry["at"], (*loc, "at"), lines)
            entries[-1] = {**entry, "at": trigger}
            problems += [problem] if problem else []
    return {**value, "faults": entries}, problems


def _find_source_problems(job: Plain, lines: YamlLines) -> Iterator[YamlProblem]:
    if not isinstance(job, dict):
        return
    given_sources = _list_given(job, SOURCES)
    text = f"job needs one of {', '.join(SOURCES)}"
    if len(given_sources) > 1:
        yield YamlProblem(
            lines.find_key_line(("job", given_sources[1])),
            text,
            f"It has {' and '.join(given_sources)}.",
            ("job",),
        )
    elif not given_sources and not _is_misspelt(job, SOURCES):
        yield YamlProblem(lines.find_value_line(("job",)), text, "It has none.", ("job",))


def _find_fault_problems(entry: Plain, loc: Loc, lines: YamlLines) -> Iterator[YamlProblem]:
    if not isinstance(entry, dict):
        return
    given_faults = _list_given(entry, FAULTS)
    empty_faults = [key for key in entry if key in FAULTS and entry[key] is None]
    if len(given_faults) > 1:
        text = f"an entry of faults has two faults, {given_faults[0]} and {given_faults[1]}"
        hint = "Give each its own entry, with its own at."
        yield YamlProblem(lines.find_key_line((*loc, given_faults[1])), text, hint, loc)
    elif empty_faults and not given_faults:
        fault_loc = (*loc, empty_faults[0])
        hint = f"Write `{empty_faults[0]}: {{}}` to take every default."
        yield YamlProblem(
            lines.find_key_line(fault_loc), f"{empty_faults[0]} has no value", hint, fault_loc
        )
    elif not given_faults and not _is_misspelt(entry, FAULTS):
        hint = f"Add one of {', '.join(FAULTS)}."
        yield YamlProblem(lines.find_value_line(loc), "an entry of faults needs a fault", hint, loc)


def _resolve_trigger(
    trigger: Plain, loc: Loc, lines: YamlLines
) -> tuple[dict[str, Any], YamlProblem | None]:
    if not isinstance(trigger, dict):
        text = f"at must be a mapping, got {quote_value(trigger)}"
        return {"epoch": 0, "step": 1}, YamlProblem(
            lines.find_value_line(loc), text, f"{_EXAMPLE}.", loc
        )
    given_kinds = [key for key in trigger if key in KINDS]
    if len(given_kinds) > 1:
        text = f"at has both {given_kinds[0]} and {given_kinds[1]}"
        problem = YamlProblem(
            lines.find_key_line((*loc, given_kinds[1])), text, "Keep the one that is meant.", loc
        )
        return {key: trigger[key] for key in trigger if key != given_kinds[1]}, problem
    if not given_kinds:
        hint = f"{_EXAMPLE}, or one of the moments {', '.join(MOMENTS)}."
        problem = YamlProblem(lines.find_value_line(loc), "at needs step or moment", hint, loc)
        close_kind = next((kind for key in trigger if (kind := find_nearest(key, KINDS))), None)
        # Only the misspelt key is reported: the rest is checked as if the meant one stood there.
        key = close_kind or "step"
        return {**trigger, key: _PLACEHOLDERS.get(key, 1)}, None if close_kind else problem
    return trigger, None


def _list_given(record: dict[str, Any], choices: Collection[str]) -> list[str]:
    return [key for key in record if key in choices and record[key] is not None]


def _is_misspelt(record: dict[str, Any], choices: Collection[str]) -> bool:
    """Return whether a key was probably meant as a choice: then that is the mistake to report."""
    return any(find_nearest(key, choices) for key in record)


NO_WORKER = ("state", "seconds")  # places at which no worker is held
ONE_ATTEMPT = ("starting", "attempt")  # keys that name the one attempt of a place


def find_sense_problems(value: Plain, lines: YamlLines, *, folder: Path) -> Iterator[YamlProblem]:
    """Yield the problems of sense; paths are relative to `folder`, the scenario file's."""
    for loc in (("job", "script"), *(("job", "then", kind) for kind in get_args(Dependency))):
        yield from _find_script_problems(value, lines, folder, loc)
    yield from _find_input_problems(value, lines, folder)
    yield from _find_module_problems(value, lines)
    yield from _find_cpu_problems(value, lines)
    yield from _find_rank_problems(value, lines)
    yield from _find_recovery_problems(value, lines)
    yield from _find_order_problems(value, lines)
    yield from _find_repeat_problems(value, lines)
    yield from _find_storage_problems(value, lines)


def _find_script_problems(
    value: Plain, lines: YamlLines, folder: Path, loc: tuple[str, ...]
) -> Iterator[YamlProblem]:
    script = _find_value(value, loc)
    if not isinstance(script, str):
        return
    if _exists(folder / script) and (folder / script).is_dir():
        text = f"the script {quote_value(script)} is a folder"
        yield YamlProblem(lines.find_value_line(loc), text, "Name the file to run.", loc)
    elif not _exists(folder / script):
        hint = "The path is relative to the scenario file."
        yield YamlProblem(
            lines.find_value_line(loc), f"there is no script {quote_value(script)}", hint, loc
        )


def _find_input_problems(value: Plain, lines: YamlLines, folder: Path) -> Iterator[YamlProblem]:
    inputs = _find_value(value, ("job", "inputs"))
    for number, name in enumerate(inputs if isinstance(inputs, list) else ()):
        if isinstance(name, str) and not _exists(folder / name):
            loc = ("job", "inputs", number)
            hint = "The path is relative to the scenario file."
            yield YamlProblem(
                lines.find_value_line(loc), f"there is no input {quote_value(name)}", hint, loc
            )


def _find_module_problems(value: Plain, lines: YamlLines) -> Iterator[YamlProblem]:
    for key, form in (("module", "package.module"), ("train_loop", "module:function")):
        loc = ("job", key)
        name = _find_value(value, loc)
        if not isinstance(name, str):
            continue
        module, *function = name.split(":")
        parts = [*module.split("."), *function]
        if len(function) != form.count(":") or not all(part.isidentifier() for part in parts):
            example = "mypackage.train" + ":train_loop" * form.count(":")
            text = f"{key} must be {form}, got {quote_value(name)}"
            yield YamlProblem(lines.find_value_line(loc), text, f"Write it like `{example}`.", loc)


def _find_cpu_problems(value: Plain, lines: YamlLines) -> Iterator[YamlProblem]:
    workers = _find_number(value, ("job", "workers"), default=None)
    min_workers = _find_number(value, ("job", "min_workers"), default=workers)
    nodes = _find_number(value, ("cluster", "nodes"), default=None)
    cpus = _find_number(value, ("cluster", "cpus_per_node"), default=1)
    if workers is None or nodes is None or cpus is None or min_workers is None:
        return
    is_command_restart = _find_value(value, ("job", "restart")) == "command"
    facts = LAUNCHER_FACTS[find_launcher(_find_value(value, ("job", "launcher")))]
    facts = facts.apply_restart("command" if is_command_restart else None)
    if facts.nodes.restarts_elsewhere:
        return
    if not facts.nodes.has_spares:
        yield from _find_agent_problems(value, lines, min_nodes=min_workers * nodes / workers)
        return
    losses = sum(
        fault.lost_node_count + max(0, -fault.nodes_added) for fault in _parse_faults(value)
    )
    remaining_cpus = max(0, nodes - losses + _count_returned_nodes(value)) * cpus
    # An elastic job begins with all its workers and goes on with those that there is room for.
    if remaining_cpus >= min_workers and nodes * cpus >= workers:
        return
    loc = ("cluster", "nodes")
    text = f"the cluster holds {remaining_cpus} of {workers} workers (nodes x cpus_per_node)"
    if nodes * cpus >= workers:
        faults = "its node fault" if losses == 1 else f"its {losses} node faults"
        text = f"after {faults} {text}: nodes are not replaced during a run"
    needed_nodes = count_nodes(workers, cpus, spares=losses)
    default_nodes = count_nodes(workers, cpus, spares=max(1, losses))
    hint = f"It takes {needed_nodes} nodes; left out, there are {default_nodes}."
    yield YamlProblem(lines.find_value_line(loc), text, hint, loc)


def _find_agent_problems(
    value: Plain, lines: YamlLines, *, min_nodes: float
) -> Iterator[YamlProblem]:
    """Yield a loss after which a launcher's agents are too few; a frozen one is not lost."""
    nodes = _find_number(value, ("cluster", "nodes"), default=1) or 1
    ending_faults = (fault for fault in _parse_faults(value) if fault.ends_attempt == "always")
    facts = LAUNCHER_FACTS[find_launcher(_find_value(value, ("job", "launcher")))]
    taking_faults = (
        ending_fault
        for ending_fault in ending_faults
        if not (ending_fault.is_announced and facts.nodes.returns_preempted)
    )
    lost_nodes = sum(fault.lost_node_count for fault in taking_faults)
    remaining_nodes = nodes - lost_nodes + _count_returned_nodes(value)
    if remaining_nodes >= min_nodes or _find_value(value, ("expect", "outcome")) == "error":
        return
    launcher = _find_value(value, ("job", "launcher"))
    text = (
        f"after its node faults {remaining_nodes} of {nodes} nodes are left, and {launcher} "
        f"waits for more"
    )
    hint = "Add return_capacity or job.min_workers, or expect `outcome: error`."
    loc = ("cluster", "nodes")
    yield YamlProblem(lines.find_value_line(loc), text, hint, loc)


def _parse_faults(value: Plain) -> list[Fault]:
    """Return the faults of a scenario, as far as the file is clear."""
    return [
        fault for _, entry in _list_entries(value) if (fault := _parse_fault(entry)) is not None
    ]


def _count_returned_nodes(value: Plain) -> int:
    return sum(max(0, fault.nodes_added) for fault in _parse_faults(value))


def _find_fault_key(entry: Plain) -> str | None:
    """Return an entry's fault key; None where it has not exactly one."""
    given_keys = [key for key in FAULTS if _find_value(entry, (key,)) is not None]
    return given_keys[0] if len(given_keys) == 1 else None


def _parse_fault(entry: Plain) -> Fault | None:
    """Return an entry's fault; None without a valid one: another check reports that mistake."""
    key = _find_fault_key(entry)
    if key is None:
        return None
    try:
        return FAULTS[key].model_validate_json(json.dumps(_find_value(entry, (key,))))
    except (ValidationError, TypeError):
        return None


def _list_entries(value: Plain) -> list[tuple[int, Plain]]:
    """Return the entries of `faults` with their numbers."""
    faults = _find_value(value, ("faults",))
    return list(enumerate(faults)) if isinstance(faults, list) else []


def _find_rank_problems(value: Plain, lines: YamlLines) -> Iterator[YamlProblem]:
    workers = _find_number(value, ("job", "workers"), default=None)
    if workers is None:
        return
    for number, _ in _list_entries(value):
        for key in ("at", *FAULTS):
            loc = ("faults", number, key, "rank")
            rank = _find_number(value, loc, default=None, minimum=0)
            if rank is not None and rank >= workers:
                text = f"rank must be below job.workers ({workers}), got {rank}"
                yield YamlProblem(lines.find_value_line(loc), text, "Ranks count from 0.", loc)


def _find_recovery_problems(value: Plain, lines: YamlLines) -> Iterator[YamlProblem]:
    """Yield recoveries from an entry that is none before them, or that ends no attempt."""
    for number, _ in _list_entries(value):
        loc = ("faults", number, "at", "recovering_from")
        cause = _find_number(value, loc, default=None, minimum=0)
        if cause is None:
            continue
        if cause >= number:
            text = f"recovering_from must name an earlier entry of faults, got {cause}"
            hint = f"This is entry {number}; the first is 0."
            yield YamlProblem(lines.find_value_line(loc), text, hint, loc)
        elif fault_key := _find_harmless_fault(_find_value(value, ("faults", cause)), value):
            text = f"entry {cause} of faults, {fault_key}, ends no attempt to recover from"
            hint = "Name an entry that does, or inject at an epoch with a step or a moment."
            yield YamlProblem(lines.find_value_line(loc), text, hint, loc)


def _find_harmless_fault(entry: Plain, value: Plain) -> str | None:
    """Return the fault of an entry if it certainly ends no attempt; else None."""
    fault = _parse_fault(entry)
    if fault is None:
        return None
    # An elastic job is made larger, which ends an attempt.
    is_elastic = _find_value(value, ("job", "min_workers")) is not None
    is_harmless = fault.family == "capacity" and not is_elastic
    return _find_fault_key(entry) if is_harmless or fault.ends_attempt == "never" else None


def _find_repeat_problems(value: Plain, lines: YamlLines) -> Iterator[YamlProblem]:
    for number, entry in _list_entries(value):
        trigger, fault = _find_value(entry, ("at",)), _parse_fault(entry)
        attempt_by_key = {
            key: _find_number(trigger, (key,), default=None, minimum=0) for key in ONE_ATTEMPT
        }
        key = next((key for key, attempt in attempt_by_key.items() if attempt is not None), None)
        if key is None or fault is None or not fault.is_repeated:
            continue
        loc = ("faults", number, "at", key)
        kind, allowed_attempts = _find_fault_key(entry), fault.only_attempts
        if allowed_attempts is None:
            text = f"{kind} is injected in every attempt that comes there, and {key} names one"
            hint = "Give it an epoch with a step or a moment; one attempt alone is meant by "
            yield YamlProblem(
                lines.find_key_line(loc), text, f"{hint}kill_worker or raise_in_worker.", loc
            )
        elif any(listed_attempt != attempt_by_key[key] for listed_attempt in allowed_attempts):
            text = f"{kind}.attempts names other attempts than {key} does"
            hint = "Give one of the two; attempts goes with an epoch and a step or a moment."
            yield YamlProblem(lines.find_key_line(loc), text, hint, loc)


def _find_order_problems(value: Plain, lines: YamlLines) -> Iterator[YamlProblem]:
    for number, entry in _list_entries(value):
        trigger, kind = _find_value(entry, ("at",)), _find_fault_key(entry)
        key = next((key for key in NO_WORKER if isinstance(trigger, dict) and key in trigger), None)
        if key is None or kind is None or not FAULTS[kind].is_ordered:
            continue
        loc = ("faults", number, "at", key)
        text = f"{kind} needs a worker that is held at its place, and {key} holds none"
        hint = "Give it an epoch with a step or a moment, starting, or recovering_from."
        yield YamlProblem(lines.find_key_line(loc), text, hint, loc)


def _find_storage_problems(value: Plain, lines: YamlLines) -> Iterator[YamlProblem]:
    """Yield faults of storage that do not fit the objects that a job puts itself, or others."""
    for number, entry in _list_entries(value):
        moment, fault = _find_value(entry, ("at", "moment")), _parse_fault(entry)
        if fault is None or fault.family != "storage":
            continue
        loc, kind = ("faults", number, "at"), _find_fault_key(entry)
        if moment in OBJECT_MOMENTS and (fault.own_objects == "never" or not fault.fits_objects):
            text = f"{kind} is done to no object that the job puts itself, as it is at {moment}"
            hint = f"There are {', '.join(_OBJECT_FAULTS)}; slow_upload takes delay_s there."
            yield YamlProblem(lines.find_key_line((*loc, "moment")), text, hint, loc)
        if moment not in OBJECT_MOMENTS and fault.own_objects == "only":
            text = f"{kind} needs an object that the job puts itself"
            yield YamlProblem(
                lines.find_key_line(loc), text, f"Give it a moment: {_OBJECT_MOMENTS}.", loc
            )


_OBJECT_FAULTS = sorted(name for name, fault in FAULTS.items() if fault.own_objects != "never")
_OBJECT_MOMENTS = " or ".join(OBJECT_MOMENTS)


def _find_number(value: Plain, loc: Loc, *, default: int | None, minimum: int = 1) -> int | None:
    """Return the number at `loc`, the default without one, None where it is no such number."""
    number = _find_value(value, loc)
    if number is None:
        return default
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    return number if is_whole and number >= minimum else None


def _find_value(value: Plain, loc: Loc) -> Plain:
    for part in loc:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int):
            value = value[part]
        else:
            return None
    return value


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that the file system cannot hold
        return False
