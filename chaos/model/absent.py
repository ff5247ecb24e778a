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
    """
    value = json.loads(plan)
    ops = value.get("ops") if isinstance(value, dict) else None
    for op in ops if isinstance(ops, list) else ():
        if isinstance(op, dict) and isinstance(op.get("package"), str):
            _mark(op, op["package"], known)
    return json.dumps(value).encode()


def _mark(op: dict[str, Any], package: str, known: Collection[str]) -> None:
    unknown = [key for key in op if key not in known and isinstance(op[key], dict)]
    for key in unknown[:1]:
        op["absent"] = {"kind": key, "settings": op.pop(key), "package": package}
