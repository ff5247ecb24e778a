"""Faults of other packages: entry points of the group `chaos.faults`."""

import inspect
import re
from collections.abc import Collection, Iterator
from typing import Any

from chaos.record import Record
from chaos.registered import FAULTS_GROUP, Registry, read_registry

_KEY = re.compile(r"[a-z][a-z0-9_]*")
_STRIKE = ("world", "victim", "release")


def registered_faults(*, taken: Collection[str], places: Collection[str]) -> Registry:
    """Give the records that other packages have registered.

    `taken` are the names of chaos's own, `places` the words in which a place is told.
    """
    return read_registry(
        FAULTS_GROUP,
        shape=_KEY,
        taken=taken,
        flaw=lambda _, what: next(_flaws(what, places), None),
    )


def _flaws(what: Any, places: Collection[str]) -> Iterator[str]:  # noqa: ANN401 - anything
    """Say what keeps something from being a fault, most basic first."""
    if not (isinstance(what, type) and issubclass(what, Record)):
        yield "a fault is a subclass of chaos.record.Record"
        return
    strike = getattr(what, "strike", None)
    if not callable(strike) or tuple(inspect.signature(strike).parameters)[1:] != _STRIKE:
        yield f"it has no method strike(self, {', '.join(_STRIKE)})"
    if "rank" not in what.model_fields and getattr(what, "rank", 0) is not None:
        yield "it has no rank: `rank: ClassVar[None] = None` is the rank at its place"
    if not isinstance(getattr(what, "ends_attempt", None), bool):
        yield "it does not say whether it ends the attempt: `ends_attempt: ClassVar[bool] = …`"
    if not what.__doc__:
        yield "it has no docstring for `chaos explain`"
    if ambiguous := sorted(set(what.model_fields) & set(places)):
        yield f"its setting {ambiguous[0]} would be taken for a place"
    try:
        what.model_json_schema()
    except Exception as error:  # noqa: BLE001 - pydantic has many ways to say it
        yield f"its settings have no JSON Schema: {type(error).__name__}: {error}"
