"""From scenario files to scenarios, with the checks that go beyond the schema.

Those are of choices, of references between a scenario's parts, and of its files. Choices are
checked on the plain values, before the records. Pydantic would check them only once everything
else is right, and for a trigger whose keys leave the choice open it would name the wrong record.
Each check uses the values that are there, so that a mistake elsewhere does not hide another.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from chaos.errors import ScenarioError, UsageError
from chaos.faults.base import Fault
from chaos.model.fault_entry import FAULTS
from chaos.model.launcher import FACTS, launcher_named
from chaos.model.scenario import SOURCES, Dependency, Scenario
from chaos.model.trigger import KINDS, MOMENTS, OF_AN_OBJECT
from chaos.plan.entries import is_drawn
from chaos.plan.make import nodes_for
from chaos.run.directory import DRAWN, is_recorded
from chaos.scenario_file.draws import unfit_draws, worst
from chaos.scenario_file.messages import nearest, quoted, reworded
from chaos.scenario_file.yaml_lines import (
    Lines,
    Loc,
    Plain,
    Problem,
    Source,
    read_source,
    read_text,
    scenario_error,
)

SUFFIX = ".chaos.yaml"


def find_scenarios(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the scenario files among `paths` and below them, each once; a folder's are sorted."""
    return tuple(dict.fromkeys(file for path in paths for file in _below(path)))


def load_scenario(path: Path) -> Scenario:
    """Return the scenario of one file; a `ScenarioError` lists all mistakes in it."""
    return _scenario(read_source(read_text(path, "scenario")), path)


def refuse_wrong(files: Iterable[Path]) -> None:
    """Raise the first file's `ScenarioError`, whose message lists the mistakes of all files."""
    errors = list[ScenarioError]()
    for file in files:
        try:
            load_scenario(file)
        except ScenarioError as error:
            errors.append(error)
    if errors:
        errors[0].args = ("\n".join(map(str, errors)),)
        raise errors[0]


def scenario_from(value: Plain, *, path: Path, line: int) -> Scenario:
    """Return the scenario that plain values make; all mistakes are at the line that has them.

    It is for keywords of Python instead of a file; `path` is that of the program, to which the
    scenario's own paths are relative.
    """
    return _scenario(Source(value=value, lines=Lines(values={(): line})), path)


def _scenario(source: Source, path: Path) -> Scenario:
    if problems := list(_problems(source, path.parent)):
        raise scenario_error(path, problems)
    scenario = Scenario.model_validate_json(json.dumps(source.value))
    if is_drawn(scenario):
        value, lines = {**source.value, "faults": worst(scenario)}, source.lines
        # What a seed may draw at worst must be possible too: a scenario that fails for one seed in
        # ten is a mistake of its file.
        problems = [*unfit_draws(scenario, lines), *_too_few_cpus(value, lines)]
        if problems:
            raise scenario_error(path, problems)
    return scenario


def _problems(source: Source, folder: Path) -> Iterator[Problem]:
    yield from source.problems
    value, lines = source.value, source.lines
    if not isinstance(value, dict):
        if not source.problems:
            text = f"a scenario must be a mapping, got {quoted(value)}"
            yield Problem(lines.value(()), text, "Begin with `scenario:` and `job:`.")
        return
    # One mistake, one message: a value that was not read is not also wrong or missing.
    unread = [problem.loc for problem in source.problems]
    value, open_choices = settled(value, lines)
    open_choices = [problem for problem in open_choices if not _is_known(problem, unread)]
    yield from open_choices
    known = [*unread, *(problem.loc for problem in open_choices)]
    for problem in (*_record_problems(value, source), *senseless(value, lines, folder=folder)):
        if not _is_known(problem, known):
            yield problem


def _is_known(problem: Problem, known: Sequence[Loc]) -> bool:
    return any(loc[: len(problem.loc)] == problem.loc for loc in known)


def _record_problems(value: object, source: Source) -> list[Problem]:
    try:
        Scenario.model_validate_json(json.dumps(value))
    except ValidationError as error:
        return list(reworded(error.errors(include_url=False), source.lines))
    return []


def _below(path: Path) -> list[Path]:
    if not path.exists():
        hint = f"Give scenario files ({SUFFIX}) or folders that hold some."
        raise UsageError("there is no such file or folder", hint, place=str(path))
    if path.is_file():
        if not path.name.endswith(SUFFIX):
            hint = f"Scenario files end in {SUFFIX}."
            raise UsageError("this is not a scenario file", hint, place=str(path))
        return [path]
    found = sorted(
        file
        for file in path.rglob(f"*{SUFFIX}")
        if not is_of_a_run(file)
        and not is_recorded(file, below=path)
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )
    if not found:
        hint = f"Scenario files end in {SUFFIX}."
        raise UsageError("there is no scenario in this folder", hint, place=str(path))
    return found


def is_of_a_run(file: Path) -> bool:
    """Return whether a scenario was drawn for a run and lies in its folder: it is not a new one."""
    return file.name == DRAWN and file.with_name("plan.json").exists()


# Values in place of a misspelt key's, so that its place is known; of any other key it is 1.
_FOR: dict[str, Any] = {"moment": "saving", "recovering_from": 0, "state": "RUNNING"}
_EXAMPLE = "Write `at: {epoch: 2, step: 5}`"


def settled(value: dict[str, Any], lines: Lines) -> tuple[dict[str, Any], list[Problem]]:
    """Return the scenario with every `at` of one kind, and the choices that are still open."""
    problems = list(_sources(value.get("job"), lines))
    faults = value.get("faults")
    if not isinstance(faults, list):
        return value, problems
    entries: list[Plain] = []
    for number, entry in enumerate(faults):
        loc = ("faults", number)
        problems += _faults(entry, loc, lines)
        entries.append(entry)
        if isinstance(entry, dict) and "at" in entry:
            at, problem = _trigger(entry["at"], (*loc, "at"), lines)
            entries[-1] = {**entry, "at": at}
            problems += [problem] if problem else []
    return {**value, "faults": entries}, problems


def _sources(job: Plain, lines: Lines) -> Iterator[Problem]:
    if not isinstance(job, dict):
        return
    named = _given(job, SOURCES)
    text = f"job needs one of {', '.join(SOURCES)}"
    if len(named) > 1:
        yield Problem(
            lines.key(("job", named[1])), text, f"It has {' and '.join(named)}.", ("job",)
        )
    elif not named and not _is_misspelt(job, SOURCES):
        yield Problem(lines.value(("job",)), text, "It has none.", ("job",))


def _faults(entry: Plain, loc: Loc, lines: Lines) -> Iterator[Problem]:
    if not isinstance(entry, dict):
        return
    named = _given(entry, FAULTS)
    empty = [key for key in entry if key in FAULTS and entry[key] is None]
    if len(named) > 1:
        text = f"an entry of faults has two faults, {named[0]} and {named[1]}"
        hint = "Give each its own entry, with its own at."
        yield Problem(lines.key((*loc, named[1])), text, hint, loc)
    elif empty and not named:
        place = (*loc, empty[0])
        hint = f"Write `{empty[0]}: {{}}` to take every default."
        yield Problem(lines.key(place), f"{empty[0]} has no value", hint, place)
    elif not named and not _is_misspelt(entry, FAULTS):
        hint = f"Add one of {', '.join(FAULTS)}."
        yield Problem(lines.value(loc), "an entry of faults needs a fault", hint, loc)


def _trigger(at: Plain, loc: Loc, lines: Lines) -> tuple[dict[str, Any], Problem | None]:
    if not isinstance(at, dict):
        text = f"at must be a mapping, got {quoted(at)}"
        return {"epoch": 0, "step": 1}, Problem(lines.value(loc), text, f"{_EXAMPLE}.", loc)
    named = [key for key in at if key in KINDS]
    if len(named) > 1:
        text = f"at has both {named[0]} and {named[1]}"
        problem = Problem(lines.key((*loc, named[1])), text, "Keep the one that is meant.", loc)
        return {key: at[key] for key in at if key != named[1]}, problem
    if not named:
        hint = f"{_EXAMPLE}, or one of the moments {', '.join(MOMENTS)}."
        problem = Problem(lines.value(loc), "at needs step or moment", hint, loc)
        meant = next((kind for key in at if (kind := nearest(key, KINDS))), None)
        # Only the misspelt key is reported: the rest is checked as if the meant one stood there.
        key = meant or "step"
        return {**at, key: _FOR.get(key, 1)}, None if meant else problem
    return at, None


def _given(record: dict[str, Any], choices: Collection[str]) -> list[str]:
    return [key for key in record if key in choices and record[key] is not None]


def _is_misspelt(record: dict[str, Any], choices: Collection[str]) -> bool:
    """Return whether a key was probably meant as a choice: then that is the mistake to report."""
    return any(nearest(key, choices) for key in record)


NO_WORKER = ("state", "seconds")  # places at which no worker is held
ONE_ATTEMPT = ("starting", "attempt")  # keys that name the one attempt of a place


def senseless(value: Plain, lines: Lines, *, folder: Path) -> Iterator[Problem]:
    """Yield the problems of sense; paths are relative to `folder`, the scenario file's."""
    for loc in (("job", "script"), *(("job", "then", kind) for kind in get_args(Dependency))):
        yield from _missing_script(value, lines, folder, loc)
    yield from _missing_inputs(value, lines, folder)
    yield from _misspelt_module(value, lines)
    yield from _too_few_cpus(value, lines)
    yield from _ranks_out_of_range(value, lines)
    yield from _recoveries(value, lines)
    yield from _orders_without_a_worker(value, lines)
    yield from _repeated_in_one_attempt(value, lines)
    yield from _of_other_storage(value, lines)


def _missing_script(
    value: Plain, lines: Lines, folder: Path, loc: tuple[str, ...]
) -> Iterator[Problem]:
    script = _pick(value, loc)
    if not isinstance(script, str):
        return
    if _exists(folder / script) and (folder / script).is_dir():
        text = f"the script {quoted(script)} is a folder"
        yield Problem(lines.value(loc), text, "Name the file to run.", loc)
    elif not _exists(folder / script):
        hint = "The path is relative to the scenario file."
        yield Problem(lines.value(loc), f"there is no script {quoted(script)}", hint, loc)


def _missing_inputs(value: Plain, lines: Lines, folder: Path) -> Iterator[Problem]:
    inputs = _pick(value, ("job", "inputs"))
    for number, name in enumerate(inputs if isinstance(inputs, list) else ()):
        if isinstance(name, str) and not _exists(folder / name):
            loc = ("job", "inputs", number)
            hint = "The path is relative to the scenario file."
            yield Problem(lines.value(loc), f"there is no input {quoted(name)}", hint, loc)


def _misspelt_module(value: Plain, lines: Lines) -> Iterator[Problem]:
    for key, form in (("module", "package.module"), ("train_loop", "module:function")):
        loc = ("job", key)
        name = _pick(value, loc)
        if not isinstance(name, str):
            continue
        module, *function = name.split(":")
        parts = [*module.split("."), *function]
        if len(function) != form.count(":") or not all(part.isidentifier() for part in parts):
            example = "mypackage.train" + ":train_loop" * form.count(":")
            text = f"{key} must be {form}, got {quoted(name)}"
            yield Problem(lines.value(loc), text, f"Write it like `{example}`.", loc)


def _too_few_cpus(value: Plain, lines: Lines) -> Iterator[Problem]:
    workers = _whole(value, ("job", "workers"), default=None)
    least_workers = _whole(value, ("job", "min_workers"), default=workers)
    nodes = _whole(value, ("cluster", "nodes"), default=None)
    cpus = _whole(value, ("cluster", "cpus_per_node"), default=1)
    if workers is None or nodes is None or cpus is None or least_workers is None:
        return
    by_command = _pick(value, ("job", "restart")) == "command"
    facts = FACTS[launcher_named(_pick(value, ("job", "launcher")))]
    facts = facts.started_by("command" if by_command else None)
    if facts.restarts_elsewhere:
        return
    if not facts.has_spare_nodes:
        yield from _too_few_agents(value, lines, least=least_workers * nodes / workers)
        return
    losses = sum(fault.nodes_lost + max(0, -fault.nodes_added) for fault in _all_faults(value))
    left = max(0, nodes - losses + _nodes_returned(value)) * cpus
    # An elastic job begins with all its workers and goes on with those that there is room for.
    if left >= least_workers and nodes * cpus >= workers:
        return
    loc = ("cluster", "nodes")
    text = f"the cluster holds {left} of {workers} workers (nodes x cpus_per_node)"
    if nodes * cpus >= workers:
        faults = "its node fault" if losses == 1 else f"its {losses} node faults"
        text = f"after {faults} {text}: nodes are not replaced during a run"
    least = nodes_for(workers, cpus, spares=losses)
    usual = nodes_for(workers, cpus, spares=max(1, losses))
    hint = f"It takes {least} nodes; left out, there are {usual}."
    yield Problem(lines.value(loc), text, hint, loc)


def _too_few_agents(value: Plain, lines: Lines, *, least: float) -> Iterator[Problem]:
    """Yield a loss after which a launcher's agents are too few; a frozen one is not lost."""
    nodes = _whole(value, ("cluster", "nodes"), default=1) or 1
    ending = (fault for fault in _all_faults(value) if fault.ends_attempt == "always")
    facts = FACTS[launcher_named(_pick(value, ("job", "launcher")))]
    taken = (f for f in ending if not (f.is_announced and facts.returns_preempted))
    lost = sum(fault.nodes_lost for fault in taken)
    left = nodes - lost + _nodes_returned(value)
    if left >= least or _pick(value, ("expect", "outcome")) == "error":
        return
    who = _pick(value, ("job", "launcher"))
    text = f"after its node faults {left} of {nodes} nodes are left, and {who} waits for more"
    hint = "Add return_capacity or job.min_workers, or expect `outcome: error`."
    loc = ("cluster", "nodes")
    yield Problem(lines.value(loc), text, hint, loc)


def _all_faults(value: Plain) -> list[Fault]:
    """Return the faults of a scenario, as far as the file is clear."""
    return [fault for _, entry in _entries(value) if (fault := _fault(entry)) is not None]


def _nodes_returned(value: Plain) -> int:
    return sum(max(0, fault.nodes_added) for fault in _all_faults(value))


def _key(entry: Plain) -> str | None:
    """Return an entry's fault key; None where it has not exactly one."""
    given = [key for key in FAULTS if _pick(entry, (key,)) is not None]
    return given[0] if len(given) == 1 else None


def _fault(entry: Plain) -> Fault | None:
    """Return an entry's fault; None without a valid one: another check reports that mistake."""
    key = _key(entry)
    if key is None:
        return None
    try:
        return FAULTS[key].model_validate_json(json.dumps(_pick(entry, (key,))))
    except (ValidationError, TypeError):
        return None


def _entries(value: Plain) -> list[tuple[int, Plain]]:
    """Return the entries of `faults` with their numbers."""
    faults = _pick(value, ("faults",))
    return list(enumerate(faults)) if isinstance(faults, list) else []


def _ranks_out_of_range(value: Plain, lines: Lines) -> Iterator[Problem]:
    workers = _whole(value, ("job", "workers"), default=None)
    if workers is None:
        return
    for number, _ in _entries(value):
        for key in ("at", *FAULTS):
            loc = ("faults", number, key, "rank")
            rank = _whole(value, loc, default=None, least=0)
            if rank is not None and rank >= workers:
                text = f"rank must be below job.workers ({workers}), got {rank}"
                yield Problem(lines.value(loc), text, "Ranks count from 0.", loc)


def _recoveries(value: Plain, lines: Lines) -> Iterator[Problem]:
    """Yield recoveries from an entry that is none before them, or that ends no attempt."""
    for number, _ in _entries(value):
        loc = ("faults", number, "at", "recovering_from")
        other = _whole(value, loc, default=None, least=0)
        if other is None:
            continue
        if other >= number:
            text = f"recovering_from must name an earlier entry of faults, got {other}"
            hint = f"This is entry {number}; the first is 0."
            yield Problem(lines.value(loc), text, hint, loc)
        elif harmless := _ends_no_attempt(_pick(value, ("faults", other)), value):
            text = f"entry {other} of faults, {harmless}, ends no attempt to recover from"
            hint = "Name an entry that does, or inject at an epoch with a step or a moment."
            yield Problem(lines.value(loc), text, hint, loc)


def _ends_no_attempt(entry: Plain, value: Plain) -> str | None:
    """Return the fault of an entry if it certainly ends no attempt; else None."""
    fault = _fault(entry)
    if fault is None:
        return None
    # An elastic job is made larger, which ends an attempt.
    is_elastic = _pick(value, ("job", "min_workers")) is not None
    ends_none = fault.family == "capacity" and not is_elastic
    return _key(entry) if ends_none or fault.ends_attempt == "never" else None


def _repeated_in_one_attempt(value: Plain, lines: Lines) -> Iterator[Problem]:
    for number, entry in _entries(value):
        at, fault = _pick(entry, ("at",)), _fault(entry)
        names = {key: _whole(at, (key,), default=None, least=0) for key in ONE_ATTEMPT}
        key = next((key for key, one in names.items() if one is not None), None)
        if key is None or fault is None or not fault.is_repeated:
            continue
        loc = ("faults", number, "at", key)
        kind, only = _key(entry), fault.only_attempts
        if only is None:
            text = f"{kind} is injected in every attempt that comes there, and {key} names one"
            hint = "Give it an epoch with a step or a moment; one attempt alone is meant by "
            yield Problem(lines.key(loc), text, f"{hint}kill_worker or raise_in_worker.", loc)
        elif any(other != names[key] for other in only):
            text = f"{kind}.attempts names other attempts than {key} does"
            hint = "Give one of the two; attempts goes with an epoch and a step or a moment."
            yield Problem(lines.key(loc), text, hint, loc)


def _orders_without_a_worker(value: Plain, lines: Lines) -> Iterator[Problem]:
    for number, entry in _entries(value):
        at, kind = _pick(entry, ("at",)), _key(entry)
        key = next((key for key in NO_WORKER if isinstance(at, dict) and key in at), None)
        if key is None or kind is None or not FAULTS[kind].is_ordered:
            continue
        loc = ("faults", number, "at", key)
        text = f"{kind} needs a worker that is held at its place, and {key} holds none"
        hint = "Give it an epoch with a step or a moment, starting, or recovering_from."
        yield Problem(lines.key(loc), text, hint, loc)


def _of_other_storage(value: Plain, lines: Lines) -> Iterator[Problem]:
    """Yield faults of storage that do not fit the objects that a job puts itself, or others."""
    for number, entry in _entries(value):
        moment, fault = _pick(entry, ("at", "moment")), _fault(entry)
        if fault is None or fault.family != "storage":
            continue
        loc, kind = ("faults", number, "at"), _key(entry)
        if moment in OF_AN_OBJECT and (fault.own_objects == "never" or not fault.fits_objects):
            text = f"{kind} is done to no object that the job puts itself, as it is at {moment}"
            hint = f"There are {', '.join(_OF_OBJECTS)}; slow_upload takes delay_s there."
            yield Problem(lines.key((*loc, "moment")), text, hint, loc)
        if moment not in OF_AN_OBJECT and fault.own_objects == "only":
            text = f"{kind} needs an object that the job puts itself"
            yield Problem(lines.key(loc), text, f"Give it a moment: {_AT_OBJECTS}.", loc)


_OF_OBJECTS = sorted(name for name, fault in FAULTS.items() if fault.own_objects != "never")
_AT_OBJECTS = " or ".join(OF_AN_OBJECT)


def _whole(value: Plain, loc: Loc, *, default: int | None, least: int = 1) -> int | None:
    """Return the number at `loc`, the default without one, None where it is no such number."""
    given = _pick(value, loc)
    if given is None:
        return default
    is_whole = isinstance(given, int) and not isinstance(given, bool)
    return given if is_whole and given >= least else None


def _pick(value: Plain, loc: Loc) -> Plain:
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
