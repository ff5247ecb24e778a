"""A fault of a plan whose package is not installed here.

It keeps the plan readable: the run is shown and judged, as unknown, and its
other processes hold their workers at the place as planned.
"""

import json
from collections.abc import Collection
from typing import Any

from chaos.faults.world import Outcome, RefusedError, Release, Victim, World
from chaos.record import Record


class AbsentFault(Record):
    """What is known of it: its key, its settings as they were written, and its package."""

    kind: str
    settings: dict[str, Any]
    package: str

    @property
    def rank(self) -> int | None:
        """The rank that it names, if it names one."""
        rank: int | None = self.settings.get("rank")
        return rank

    def strike(self, world: World, victim: Victim, release: Release) -> Outcome:
        """Refuse: nobody here knows what it does."""
        del world, victim, release
        raise RefusedError(self.why)

    @property
    def why(self) -> str:
        """Say what is missing."""
        return f"{self.kind} is of the package {self.package}, which is not installed here"

    def __str__(self) -> str:
        return f"{self.kind} (of {self.package}, not installed here)"


def with_absent(plan: bytes, known: Collection[str]) -> bytes:
    """Give a plan's JSON with the faults of packages that are not here marked as absent.

    Only what a package was named for is marked: any other unknown key is a mistake.
    Left out are keys that hold nothing: faults that were installed, and not used.
    """
    value = json.loads(plan)
    ops = value.get("ops") if isinstance(value, dict) else None
    if isinstance(ops, list):
        value["ops"] = [_marked(op, known) if isinstance(op, dict) else op for op in ops]
    return json.dumps(value).encode()


def _marked(op: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    kept = {key: value for key, value in op.items() if key in known or value is not None}
    foreign = next((k for k in kept if k not in known and isinstance(kept[k], dict)), None)
    if foreign is not None and isinstance(op.get("package"), str):
        absent = {"kind": foreign, "settings": kept.pop(foreign), "package": op["package"]}
        kept["absent"] = absent
    return kept
