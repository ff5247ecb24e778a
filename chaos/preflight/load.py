"""From a file `*.preflight.yaml` to a question, every mistake with its line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from chaos.errors import UsageError
from chaos.preflight.presets import MARKETS, preset
from chaos.preflight.question import Question
from chaos.record import Record
from chaos.scenario_file.messages import nearest, quoted
from chaos.scenario_file.yaml_lines import (
    Lines,
    Problem,
    Source,
    read_source,
    read_text,
    scenario_error,
)

SUFFIX = ".preflight.yaml"
_KINDS = {"exponential", "weibull", "bathtub"}
_MEANS_NOTHING = {  # what an earlier version took, and used for nothing
    "workers_per_node": "Leave it out: nodes are lost whole, however many workers they hold.",
    "launched_by": "Leave it out: who starts the job changes nothing in a forecast.",
}


def load_question(path: Path, *, market: dict[str, Any] | None = None) -> Question:
    """Read one question; `market` takes the place of the file's own, which may then be missing.

    Raises `ScenarioError` with everything that is wrong, each with its line.
    """
    source = read_source(read_text(path, "question"))
    if source.problems:
        raise scenario_error(path, source.problems)
    value = source.value
    if not isinstance(value, dict):
        text = f"a question must be a mapping, got {quoted(value)}"
        raise scenario_error(path, [Problem(1, text, "Begin with `preflight:` and `job:`.")])
    wrong: list[Problem] = []
    if market is not None:
        value["market"] = market
    elif isinstance(value.get("market"), str):
        value["market"], wrong = _named(source)
    try:
        question = Question.model_validate_json(json.dumps(value))
    except ValidationError as error:
        errors = error.errors(include_url=False)
        raise scenario_error(path, [*wrong, *_problems(errors, source.lines)]) from None
    if wrong:
        raise scenario_error(path, wrong)
    return question


def _named(source: Source) -> tuple[dict[str, Any], list[Problem]]:
    """Give the market of that name; where there is none, any, so that the rest is still read."""
    try:
        return preset(str(source.value["market"])).model_dump(mode="json"), []
    except UsageError as error:
        line = source.lines.value(("market",))
        wrong = Problem(line, error.problem, error.hint, ("market",))
        return MARKETS[0].model_dump(mode="json"), [wrong]


def _problems(errors: list[ErrorDetails], lines: Lines) -> Iterator[Problem]:
    unknown = [_place(error) for error in errors if error["type"] == "extra_forbidden"]
    meant = {(*loc[:-1], nearest(str(loc[-1]), _keys_beside(loc))) for loc in unknown}
    for error in errors:
        loc = _place(error)
        if error["type"] == "missing" and loc in meant:
            continue  # a misspelt key is not also a missing one
        name = ".".join(str(part) for part in loc) or "the question"
        match error["type"]:
            case "extra_forbidden":
                near = nearest(str(loc[-1]), _keys_beside(loc))
                hint = _MEANS_NOTHING.get(str(loc[-1])) or (f"Did you mean {near}?" if near else "")
                yield Problem(lines.key(loc), f"unknown key {name!r}", hint, loc)
            case "missing":
                yield Problem(lines.value(loc[:-1]), f"{name} is missing", "", loc)
            case "value_error":
                text = error["msg"].removeprefix("Value error, ")
                yield Problem(lines.value(loc), text, "", loc)
            case _:
                text = f"{name}: {error['msg'][:1].lower()}{error['msg'][1:]}"
                yield Problem(lines.value(loc), f"{text}, got {quoted(error['input'])}", "", loc)


def _place(error: ErrorDetails) -> tuple[str | int, ...]:
    return tuple(part for part in error["loc"] if part not in _KINDS)


def _keys_beside(loc: tuple[str | int, ...]) -> list[str]:
    """Give the keys that could stand where `loc` does."""
    kind: Any = Question
    for part in loc[:-1]:
        field = kind.model_fields.get(part)
        kind = next((k for k in _records(field.annotation) if k), None) if field else None
        if kind is None:
            return []
    return [*kind.model_fields, *getattr(kind, "ALSO", ())]


def _records(annotation: Any) -> Iterator[type[Record]]:  # noqa: ANN401 (a type, or a union)
    for one in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(one, type) and issubclass(one, Record):
            yield one
