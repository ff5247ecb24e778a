"""Processes of our own cluster that a signal has ended which chaos did not send.

The kernel sends one where memory runs out. What the job makes of it is no finding: the run
is broken off, and says what was killed.
"""

import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from chaos.errors import HarnessError


@dataclass(frozen=True)
class Death:
    """The end of a raylet or a GCS (`kind`, in Ray's words) by a signal."""

    kind: str
    node_id: str
    pid: int
    signal: int
    is_heads: bool

    def __str__(self) -> str:
        """Return who died of what."""
        whose = "the head" if self.is_heads else f"node {self.node_id[:8]}"
        return (
            f"the {self.kind.replace('_', ' ')} of {whose} (pid {self.pid}) was ended by "
            f"{signal.Signals(self.signal).name}, which chaos did not send"
        )


@dataclass
class Deaths:
    """One per run. `look` finds all deaths, `lost` the nodes that faults have taken so far."""

    look: Callable[[], Collection[Death]]
    lost: Callable[[], Collection[str]]
    _known: set[Death] = field(default_factory=set[Death])

    def foreign(self) -> Death | None:
        """Return one that no fault explains, the head's first: no fault ever takes that."""
        found = sorted(set(self.look()) - self._known, key=lambda death: not death.is_heads)
        for death in found:
            if death.is_heads or death.node_id not in self.lost():
                return death
            self._known.add(death)
        return None


def broken_off(death: Death) -> HarnessError:
    """Return the error that ends a run for it."""
    return HarnessError(
        f"{death}. The run was broken off and says nothing of the job. The kernel ends processes "
        "where memory runs out, and `dmesg` shows it: run with fewer workers, or where more "
        "memory is free"
    )
