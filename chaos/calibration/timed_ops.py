"""Ops of a plan that strike by the clock, as a market strikes a pool of nodes.

An audit strikes at places, so that it repeats itself. What a forecast says of the
clock can be held only against harm that knows nothing of places.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from chaos.model.plan import BackendName, Op
from chaos.preflight.compression import Change

# A loss takes a worker alone; the node below it, which comes again later; or a node that
# is announced to go, in whose place another comes at that moment.
Losses: TypeAlias = Literal["kills", "nodes", "notices"]

JOIN_S: dict[BackendName, float] = {"fork": 0.0, "ray": 2.0}  # from an order to a node
SOON_S = 0.01


@dataclass(frozen=True)
class Clock:
    """How moments of a market become seconds of a plan, which counts from the first workers on.

    Those are there `placed_s` after the market's time begins; a node that is ordered comes
    `join_s` later; a loss is announced `notice_s` ahead.
    """

    placed_s: float = 0.0
    join_s: float = 0.0
    notice_s: float = 0.0

    def at(self, moment_s: float) -> dict[str, float]:
        """Return the trigger of an op."""
        return {"seconds": max(SOON_S, moment_s - self.placed_s)}


def timed_ops(changes: Sequence[Change], losses: Losses, clock: Clock) -> tuple[Op, ...]:
    """Return the ops of a market's changes, in the order in which they strike."""
    entries = (entry for change in changes for entry in _entries(change, losses, clock))
    ordered = sorted(entries, key=lambda entry: entry["at"]["seconds"])
    return tuple(Op.model_validate({"index": n, **entry}) for n, entry in enumerate(ordered))


def _entries(change: Change, losses: Losses, clock: Clock) -> Iterator[dict[str, Any]]:
    notice_s = min(clock.notice_s, change.at_s) if losses == "notices" else 0.0
    at = clock.at(change.at_s - notice_s)
    faults: dict[Losses, dict[str, Any]] = {
        "kills": {"kill_worker": {}},
        "nodes": {"kill_node": {}},
        "notices": {"preempt_node": {"notice_s": round(notice_s, 3)}},
    }
    for node in change.lost:
        yield {"at": at, "node": node, **faults[losses]}
    if change.came:
        came = {"nodes": change.came}
        yield {"at": clock.at(change.at_s - clock.join_s), "return_capacity": came}
