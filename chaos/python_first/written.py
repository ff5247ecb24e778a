"""A scenario from values that Python wrote, checked as the reader of files checks a file."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any

from chaos.model.scenario import Job, Scenario
from chaos.record import Record
from chaos.scenario_file.load import scenario_from

JOB_KEYS = frozenset(Job.model_fields)


def scenario_of(given: Mapping[str, Any], *, name: str, path: Path, line: int) -> Scenario:
    """Give the scenario that keywords describe, the job's among them; None is left out.

    Raises `ScenarioError` at the line with all that is wrong, in the words
    that a file's reader uses.
    """
    known = {key: _plain(value) for key, value in given.items() if value is not None}
    value = {
        "scenario": name,
        "job": {key: known.pop(key) for key in [*known] if key in JOB_KEYS},
        **known,
    }
    return scenario_from(value, path=path, line=line)


def train_loop_name(train_loop: str | Callable[..., object]) -> str:
    """Give a train loop as `module:function`, so that the job's own process can import it."""
    if isinstance(train_loop, str):
        return train_loop
    name = train_loop.__qualname__
    if not name.isidentifier():
        raise ValueError(
            f"train_loop must be a function at the top of its module, got {name}: "
            "the job's own process imports it"
        )
    return f"{train_loop.__module__}:{name}"


def _plain(value: Any) -> Any:  # noqa: ANN401 - what JSON has, of what Python wrote
    return json.loads(json.dumps(value, default=_as_json))


def _as_json(value: object) -> Any:  # noqa: ANN401 - what JSON has
    if isinstance(value, Record):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"a scenario holds plain values, not {type(value).__name__}: {value!r}")
