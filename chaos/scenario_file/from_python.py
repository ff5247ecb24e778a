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
from chaos.scenario_file.load import parse_scenario
from chaos.scenario_file.messages import find_nearest, reword_errors
from chaos.scenario_file.yaml_lines import YamlLines

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


def list_settings(fault: str) -> Mapping[str, FieldInfo]:
    """Return a fault's own settings by name, without those that name the place."""
    fields = FAULTS[fault].model_fields
    return {name: field for name, field in fields.items() if name not in {*PLACE, *DRAWS}}


def build_signature(fault: str) -> Signature:
    """Return the parameters of a fault's function; all are keywords."""
    keyword = partial(Parameter, kind=Parameter.KEYWORD_ONLY)
    parameters = [
        keyword(key, default=None, annotation=kind) for key, kind in {**PLACE, **DRAWS}.items()
    ]
    for name, field in list_settings(fault).items():
        default = Parameter.empty if field.is_required() else field.get_default()
        parameters.append(
            keyword(name, default=default, annotation=strip_annotations(field.annotation))
        )
    return Signature(parameters, return_annotation=FaultEntry)


def strip_annotations(kind: Any) -> Any:  # noqa: ANN401 - a type, of which Python has many kinds
    """Return a type as people would write it: `Annotated` is for pydantic."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return strip_annotations(args[0])
    if origin in {Union, UnionType}:
        return reduce(or_, map(strip_annotations, args))
    if origin is tuple:
        return GenericAlias(tuple, tuple(map(strip_annotations, args)))
    return kind


def _build_function(fault: str) -> Construct:
    signature = build_signature(fault)

    def construct(**keywords: Any) -> FaultEntry:  # noqa: ANN401 - as the signature says
        try:
            signature.bind(**keywords)
        except TypeError as error:
            unknown = next((name for name in keywords if name not in signature.parameters), "")
            close_name = find_nearest(unknown, signature.parameters)
            hint = f". Did you mean {close_name}?" if close_name else ""
            raise TypeError(f"{fault}() {error}{hint}") from None
        return _build_entry(fault, keywords)

    construct.__name__ = construct.__qualname__ = fault
    construct.__doc__ = f"{cleandoc(FAULTS[fault].__doc__ or '')}\n\n{PLACE_DOC}"
    construct.__signature__ = signature  # type: ignore[attr-defined] # what inspect looks for
    return construct


def _build_entry(fault: str, keywords: Mapping[str, Any]) -> FaultEntry:
    given_values = {name: value for name, value in keywords.items() if value is not None}
    fault_settings = {
        name: value for name, value in given_values.items() if name not in {*PLACE, *DRAWS}
    }
    if "at" in given_values and "rank" in given_values:
        fault_settings["rank"] = given_values["rank"]
    draw_values = {
        name: _convert_plain(given_values[name]) for name in DRAWS if name in given_values
    }
    value = {"at": _build_trigger(fault, given_values), **draw_values, fault: fault_settings}
    try:
        return FaultEntry.model_validate_json(json.dumps(value))
    except ValidationError as error:
        # The schema that the words come from is a scenario's: the entry is its first.
        details = error.errors(include_url=False)
        for detail in details:
            detail["loc"] = ("faults", 0, *detail["loc"])
        problems = [problem.message for problem in reword_errors(details, YamlLines())]
        raise ValueError(f"{fault}(): {'; '.join(problems)}") from None


def _build_trigger(fault: str, keywords: Mapping[str, Any]) -> dict[str, Any]:
    given_kinds = [kind for kind in KINDS if kind in keywords]
    trigger = keywords.get("at")
    if trigger is not None:
        if given_kinds or "epoch" in keywords:
            raise TypeError(f"{fault}() has either at or {(*given_kinds, 'epoch')[0]}")
        return (
            trigger.model_dump(exclude_none=True) if isinstance(trigger, Record) else dict(trigger)
        )
    if len(given_kinds) != 1:
        conflict_text = f"; it has {' and '.join(given_kinds)}" if given_kinds else ""
        raise TypeError(
            f"{fault}() needs one place: epoch and step, epoch and moment, recovering_from, "
            f"starting, state, seconds, or at{conflict_text}"
        )
    trigger_keys = ("epoch", *given_kinds, "attempt", "stage", "at_launch", "visit", "rank")
    return {name: keywords[name] for name in trigger_keys if name in keywords}


BY_NAME: dict[str, Construct] = {fault: _build_function(fault) for fault in FAULTS}


def build_scenario(keywords: Mapping[str, Any], *, name: str, path: Path, line: int) -> Scenario:
    """Return the scenario that keywords describe, the job's among them; None is left out.

    Raises `ScenarioError` at the line with all mistakes, in the words used for a file.
    """
    given_values = {
        key: _convert_plain(value) for key, value in keywords.items() if value is not None
    }
    value = {
        "scenario": name,
        "job": {key: given_values.pop(key) for key in [*given_values] if key in Job.model_fields},
        **given_values,
    }
    return parse_scenario(value, path=path, line=line)


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


def _convert_plain(value: Any) -> Any:  # noqa: ANN401 - what JSON has, of what Python wrote
    return json.loads(json.dumps(value, default=_convert_value))


def _convert_value(value: object) -> Any:  # noqa: ANN401 - what JSON has
    if isinstance(value, Record):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"a scenario holds plain values, not {type(value).__name__}: {value!r}")
