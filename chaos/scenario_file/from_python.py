"""Scenarios from Python: a function for each fault, and keywords checked as a file is."""

import json
from collections.abc import Callable, Mapping
from functools import partial, reduce
from inspect import Parameter, Signature, cleandoc
from operator import or_
from pathlib import Path, PurePath
from types import GenericAlias, UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from chaos.model.draws import Every, UpTo
from chaos.model.fault_entry import FAULTS, FaultEntry
from chaos.model.scenario import Job, Scenario
from chaos.model.trigger import (
    KINDS,
    AtMoment,
    AtRecovery,
    AtStart,
    AtState,
    AtStep,
    AtTime,
    Moment,
    Stage,
    State,
)
from chaos.record import Record
from chaos.scenario_file.load import scenario_from
from chaos.scenario_file.messages import nearest, reworded
from chaos.scenario_file.yaml_lines import Lines

Construct: TypeAlias = Callable[..., FaultEntry]

PLACE: dict[str, Any] = {
    "at": AtStep | AtMoment | AtRecovery | AtStart | AtState | AtTime | Mapping[str, Any] | None,
    "epoch": int | None,
    "step": int | None,
    "moment": Moment | None,
    "attempt": int | None,
    "recovering_from": int | None,
    "stage": Stage | None,
    "starting": int | None,
    "at_launch": bool | None,
    "state": State | None,
    "visit": int | None,
    "seconds": float | None,
    "rank": int | None,
}
DRAWS: dict[str, Any] = {
    "up_to": UpTo | Mapping[str, Any] | None,
    "chance": float | None,
    "every": Every | Mapping[str, Any] | None,
}
PLACE_DOC = """\
The place is `epoch` with `step` or `moment`, in one `attempt` or the first that
comes there; or `recovering_from` and its `stage`, `starting`, a `state` and its `visit`, or
`seconds`; on `rank` (left out: drawn from the seed). Where it is given as
`at={...}` instead, `rank` is the fault's own: its target is another rank than
the one at the place. The seed draws the place between it and `up_to`, with `chance`, and
again at the distances of `every`.\
"""


def settings_of(fault: str) -> Mapping[str, FieldInfo]:
    """Return a fault's own settings by name, without those that name the place."""
    fields = FAULTS[fault].model_fields
    return {name: field for name, field in fields.items() if name not in {*PLACE, *DRAWS}}


def signature_of(fault: str) -> Signature:
    """Return the parameters of a fault's function; all are keywords."""
    keyword = partial(Parameter, kind=Parameter.KEYWORD_ONLY)
    found = [keyword(n, default=None, annotation=kind) for n, kind in {**PLACE, **DRAWS}.items()]
    for name, field in settings_of(fault).items():
        default = Parameter.empty if field.is_required() else field.get_default()
        found.append(keyword(name, default=default, annotation=without_bounds(field.annotation)))
    return Signature(found, return_annotation=FaultEntry)


def without_bounds(kind: Any) -> Any:  # noqa: ANN401 - a type, of which Python has many kinds
    """Return a type as people would write it: `Annotated` is for pydantic."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return without_bounds(args[0])
    if origin in {Union, UnionType}:
        return reduce(or_, map(without_bounds, args))
    if origin is tuple:
        return GenericAlias(tuple, tuple(map(without_bounds, args)))
    return kind


def _function(fault: str) -> Construct:
    signature = signature_of(fault)

    def construct(**given: Any) -> FaultEntry:  # noqa: ANN401 - as the signature says
        try:
            signature.bind(**given)
        except TypeError as error:
            unknown = next((name for name in given if name not in signature.parameters), "")
            meant = nearest(unknown, signature.parameters)
            hint = f". Did you mean {meant}?" if meant else ""
            raise TypeError(f"{fault}() {error}{hint}") from None
        return _entry(fault, given)

    construct.__name__ = construct.__qualname__ = fault
    construct.__doc__ = f"{cleandoc(FAULTS[fault].__doc__ or '')}\n\n{PLACE_DOC}"
    construct.__signature__ = signature  # type: ignore[attr-defined] # what inspect looks for
    return construct


def _entry(fault: str, given: Mapping[str, Any]) -> FaultEntry:
    known = {name: value for name, value in given.items() if value is not None}
    own = {name: value for name, value in known.items() if name not in {*PLACE, *DRAWS}}
    if "at" in known and "rank" in known:
        own["rank"] = known["rank"]
    drawn = {name: _plain(known[name]) for name in DRAWS if name in known}
    value = {"at": _place(fault, known), **drawn, fault: own}
    try:
        return FaultEntry.model_validate_json(json.dumps(value))
    except ValidationError as error:
        # The schema that the words come from is a scenario's: the entry is its first.
        details = error.errors(include_url=False)
        for detail in details:
            detail["loc"] = ("faults", 0, *detail["loc"])
        problems = [problem.said for problem in reworded(details, Lines())]
        raise ValueError(f"{fault}(): {'; '.join(problems)}") from None


def _place(fault: str, given: Mapping[str, Any]) -> dict[str, Any]:
    named = [kind for kind in KINDS if kind in given]
    at = given.get("at")
    if at is not None:
        if named or "epoch" in given:
            raise TypeError(f"{fault}() has either at or {(*named, 'epoch')[0]}")
        return at.model_dump(exclude_none=True) if isinstance(at, Record) else dict(at)
    if len(named) != 1:
        given_both = f"; it has {' and '.join(named)}" if named else ""
        raise TypeError(
            f"{fault}() needs one place: epoch and step, epoch and moment, recovering_from, "
            f"starting, state, seconds, or at{given_both}"
        )
    beside = ("epoch", *named, "attempt", "stage", "at_launch", "visit", "rank")
    return {name: given[name] for name in beside if name in given}


BY_NAME: dict[str, Construct] = {fault: _function(fault) for fault in FAULTS}


def scenario_of(given: Mapping[str, Any], *, name: str, path: Path, line: int) -> Scenario:
    """Return the scenario that keywords describe, the job's among them; None is left out.

    Raises `ScenarioError` at the line with all mistakes, in the words used for a file.
    """
    known = {key: _plain(value) for key, value in given.items() if value is not None}
    value = {
        "scenario": name,
        "job": {key: known.pop(key) for key in [*known] if key in Job.model_fields},
        **known,
    }
    return scenario_from(value, path=path, line=line)


def train_loop_name(train_loop: str | Callable[..., object]) -> str:
    """Return a train loop as `module:function`, so that the job's own process can import it."""
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
