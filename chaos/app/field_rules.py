"""The rules of fields: the values that a field may have, what it needs, and what it excludes.

A rule stands beside its field, of a request or of a command's options, as in `Annotated[int,
minimum(1)]`. The values of a literal, and those of a bool, need none.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, NamedTuple, Protocol, get_args, get_origin, get_type_hints

from chaos.errors import RequestError, UsageError
from chaos.model.launcher import LAUNCHER_FACTS
from chaos.model.launcher_policy import LauncherPolicy
from chaos.model.plan import PlanBackend


class Field(NamedTuple):
    """A field of a request, or an option of a command, as it is used."""

    name: str
    value: Any
    default: object
    rules: tuple["FieldRule", ...]

    @property
    def is_given(self) -> bool:
        """Whether it asks for something."""
        is_empty = self.value is None or self.value == []  # as typer has a list that is left out
        return not is_empty and self.value != self.default  # 0 is a number that somebody gave


class FieldUses(NamedTuple):
    """All fields of a request; its launcher, once it is known."""

    fields: Mapping[str, Field]
    launcher: LauncherPolicy | None = None


class FieldRule(Protocol):
    """A rule of the field that it stands beside."""

    def find_error(self, field: Field, uses: FieldUses, /) -> UsageError | None:
        """Return the error of a field that breaks the rule."""


def check_fields(uses: FieldUses) -> None:
    """Raise the error of the first rule that a field breaks."""
    for field in uses.fields.values():
        for rule in field.rules:
            if (error := rule.find_error(field, uses)) is not None:
                raise error


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request, whose fields keep their rules."""

    def __post_init__(self) -> None:
        self.validate()

    def validate(self, launcher: LauncherPolicy | None = None) -> None:
        """Raise `RequestError` for a field that breaks a rule; for those of launchers, with it."""
        check_fields(FieldUses(self.list_fields(), launcher))

    def list_fields(self) -> dict[str, Field]:
        """Return the fields by name."""
        types, hints = get_type_hints(type(self)), get_type_hints(type(self), include_extras=True)
        field_uses = dict[str, Field]()
        for item in fields(self):
            name, make_default = item.name, item.default_factory
            default = item.default if make_default is MISSING else make_default()
            rules = (*getattr(hints[name], "__metadata__", ()), *_derive_rules(types[name]))
            field_uses[name] = Field(name, getattr(self, name), default, rules)
        return field_uses


def _derive_rules(hint: Any) -> Iterator[FieldRule]:  # noqa: ANN401 - any annotation
    """Yield the rules that are in a type."""
    if hint is bool:
        yield SWITCH
    alternatives = get_args(hint) if NoneType in get_args(hint) else (hint,)
    for alternative in alternatives:
        if get_origin(alternative) is Literal:
            yield Values(", ".join(get_args(alternative)), get_args(alternative).__contains__)


class Values(NamedTuple):
    """It has one of some values; None is left out."""

    #: What it is, in words.
    description: str
    contains: Callable[[Any], bool]
    problem: str = "it is {description}; got {value!r}"
    hint: str = ""

    def find_error(self, field: Field, _: FieldUses) -> RequestError | None:
        if field.value is None or self.contains(field.value):
            return None
        texts = {"description": self.description, "value": field.value}
        return RequestError(self.problem, self.hint, field=field.name, **texts)


SWITCH = Values("True or False", lambda value: isinstance(value, bool))
NOT_NEGATIVE = Values(
    "a number from 0", lambda value: isinstance(value, Real) and 0 <= float(value) < math.inf
)


def minimum(limit: int) -> Values:
    """Return the rule of whole numbers from a limit on."""

    def is_valid(value: object) -> bool:
        is_whole = isinstance(value, Integral) and not isinstance(value, bool)
        return is_whole and value >= limit  # type: ignore[operator]

    return Values(f"a whole number from {limit}", is_valid)


class HostAndPort(NamedTuple):
    """It is the address of a cluster."""

    def find_error(self, field: Field, _: FieldUses) -> RequestError | None:
        host, port = ("HOST:0" if field.value is None else field.value).rpartition(":")[::2]
        if host and "/" not in host and port.isdecimal():
            return None
        return RequestError(
            f"{{{field.name}:{{value}}}} is no address",
            "Give host:port, as `ray start --head` prints it; never `auto`.",
            value=field.value,
        )


class ReadBy(NamedTuple):
    """It is a text that a function can read, which raises `ValueError` for others."""

    parse: Callable[[str], object]

    def find_error(self, field: Field, _: FieldUses) -> RequestError | None:
        try:
            if field.value is not None:
                self.parse(field.value)
        except ValueError as error:
            return RequestError("{error}", field=field.name, error=error)
        return None


class Needs(NamedTuple):
    """It does nothing without another field."""

    other_field: str

    def find_error(self, field: Field, uses: FieldUses) -> RequestError | None:
        if not field.is_given or uses.fields[self.other_field].is_given:
            return None
        name, other_name = f"{{{field.name}}}", f"{{{self.other_field}}}"
        hint = f"Add {other_name}, or leave {name} out."
        return RequestError(f"{name} goes with {other_name}", hint, field=field.name)


class Excludes(NamedTuple):
    """It does not go with another field."""

    other_field: str
    problem: str
    hint: str = "Give one of them."
    #: The values of the other field that it does not go with; left out: any but the default.
    values: tuple[object, ...] = ()
    #: The field's own value that asks for nothing.
    unless: object = None

    def find_error(self, field: Field, uses: FieldUses) -> RequestError | None:
        excluded = uses.fields[self.other_field]
        is_asking = field.is_given and (self.unless is None or field.value != self.unless)
        is_in_conflict = excluded.value in self.values if self.values else excluded.is_given
        error = RequestError(self.problem, self.hint, field=field.name)
        return error if is_asking and is_in_conflict else None


def forbid_parallel_jobs(*backends: PlanBackend) -> Excludes:
    """Return the rule of a number of runs side by side, which these backends do not have."""
    problem, hint = "only forked workers run side by side", "Add {backend:fork}."
    return Excludes("backend", problem, hint, values=backends, unless=1)


class NeedsLauncher(NamedTuple):
    """Only the launchers take it whose facts name it."""

    #: Why the others need none.
    reason: str = ""

    def find_error(self, field: Field, uses: FieldUses) -> RequestError | None:
        takers = [facts for facts in LAUNCHER_FACTS.values() if field.name in facts.fields.audit]
        if uses.launcher is None or not field.is_given or uses.launcher in takers:
            return None
        return _build_launcher_error(field, takers[0], uses.launcher, reason=self.reason)


class NamesLauncher(NamedTuple):
    """It may be the name of its launcher, and of no other."""

    def find_error(self, field: Field, uses: FieldUses) -> RequestError | None:
        if uses.launcher is None or not field.is_given or field.value == uses.launcher.name:
            return None
        return _build_launcher_error(
            field, LAUNCHER_FACTS[field.value], uses.launcher, value=field.value
        )


class ExcludesScriptRestart(NamedTuple):
    """It is for jobs whose scripts do not say themselves how they begin again."""

    def find_error(self, field: Field, uses: FieldUses) -> RequestError | None:
        rules = None if uses.launcher is None else uses.launcher.fields
        if rules is None or not field.is_given or not rules.restart_refusal:
            return None
        return RequestError(rules.restart_refusal, rules.restart_hint, field=field.name)


def _build_launcher_error(
    field: Field, taker: LauncherPolicy, facts: LauncherPolicy, *, value: str = "", reason: str = ""
) -> RequestError:
    """Return the error of a field, or of its value, that only other launchers take."""
    setting = f"{{{field.name}:{value}}}" if value else f"{{{field.name}}}"
    launcher = f"{{launcher:{taker.name}}}"
    suffix = f": {reason}" if reason else ""
    condition = taker.words.need_condition or f"if {taker.name} starts the script"
    problem = f"{setting} is for scripts that {taker.name} starts{suffix}"
    if taker.words.need:
        problem = f"{setting} {taker.words.need}, and {facts.name} starts this script"
    return RequestError(
        problem, f"Leave {setting} out; or, {condition}, add {launcher}.", field=field.name
    )
