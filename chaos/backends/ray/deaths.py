"""Raylets and the GCS of our own cluster that have ended, and no fault had them end.

The kernel ends one where memory runs out, a raylet ends itself where a busy machine kept it
from answering, and others may do it by mistake. What the job makes of it is no finding.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from chaos.run.killed import MEMORY, is_foreign, killed


@dataclass(frozen=True)
class Death:
    """The end of a process, `kind` in Ray's words; a signal's code is negative."""

    kind: str
    node_id: str
    pid: int
    code: int
    is_heads: bool

    def __str__(self) -> str:
        """Return who ended, how, and what to do about it."""
        whose = "the head" if self.is_heads else f"node {self.node_id[:8]}"
        who = f"the {self.kind.replace('_', ' ')} of {whose} (pid {self.pid})"
        return killed(who, self.code) if is_foreign(self.code) else f"{who} {self._by_itself}"

    @property
    def _by_itself(self) -> str:
        return (
            f"ended by itself, with code {self.code}. A raylet that does not answer for two "
            "seconds is given up, and ends: run with fewer workers, or where less else runs"
        )


def lost(error: Exception) -> str:
    """Return the sentence for an error that a call of an actor of chaos's own ended with."""
    first = next(iter(str(error).splitlines()), "")
    return f"an actor of chaos on the cluster is gone ({type(error).__name__}: {first}). {MEMORY}"


@dataclass
class Deaths:
    """One per run. `look` finds all deaths, `struck` the nodes that faults had to do with so far.

    `ends_gcs`: the plan ends the GCS, without which raylets end themselves after a while.
    """

    look: Callable[[], Collection[Death]]
    struck: Callable[[], Collection[str]]
    ends_gcs: bool = False
    _known: set[Death] = field(default_factory=set[Death])

    def foreign(self) -> Death | None:
        """Return one that no fault explains, the head's first: no fault ever takes that."""
        found = sorted(set(self.look()) - self._known, key=lambda death: not death.is_heads)
        for death in found:
            if not self._is_explained(death):
                return death
            self._known.add(death)
        return None

    def _is_explained(self, death: Death) -> bool:
        if self.ends_gcs and death.kind == "raylet":
            return True
        return not death.is_heads and death.node_id in self.struck()
