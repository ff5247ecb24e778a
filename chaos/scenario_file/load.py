"""From scenario files to scenarios."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from chaos.errors import UsageError
from chaos.model.scenario import Scenario
from chaos.scenario_file.messages import quoted, reworded
from chaos.scenario_file.validate import senseless, settled
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
    found: dict[Path, None] = {}
    for path in paths:
        found.update(dict.fromkeys(_below(path)))
    return tuple(found)


def load_scenario(path: Path) -> Scenario:
    """Return the scenario of one file; a `ScenarioError` lists all mistakes in it."""
    return _scenario(read_source(read_text(path, "scenario")), path)


def scenario_from(value: Plain, *, path: Path, line: int) -> Scenario:
    """Return the scenario that plain values make; all mistakes are at the line that has them.

    It is for keywords of Python instead of a file; `path` is that of the program, to which the
    scenario's own paths are relative.
    """
    return _scenario(Source(value=value, lines=Lines(values={(): line})), path)


def _scenario(source: Source, path: Path) -> Scenario:
    if problems := list(_problems(source, path.parent)):
        raise scenario_error(path, problems)
    return Scenario.model_validate_json(json.dumps(source.value))


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
    found = sorted(file for file in path.rglob(f"*{SUFFIX}") if not _is_hidden(file, path))
    if not found:
        hint = f"Scenario files end in {SUFFIX}."
        raise UsageError("there is no scenario in this folder", hint, place=str(path))
    return found


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(folder).parts)
