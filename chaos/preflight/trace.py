"""A record of a market that somebody kept: how many nodes were up, and when."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from chaos.preflight.market import Replay

Kind: TypeAlias = Literal["held", "probes"]


@dataclass(frozen=True)
class Change:
    """From `at_s` on, `up` nodes; `lost` and `added` at that instant."""

    at_s: float
    up: int
    lost: int
    added: int


@dataclass(frozen=True)
class Trace:
    """Changes in order, the first at 0.

    `held`: nodes that someone held, so that a drop is a loss. `probes`: what
    could have been had; a drop there says that capacity was gone, and nothing
    of how long a node that one holds would have lived. `repairs` lists what
    was put right while reading.
    """

    name: str
    format: str
    kind: Kind
    changes: tuple[Change, ...]
    span_s: float
    repairs: tuple[str, ...] = ()

    @property
    def peak(self) -> int:
        """The most nodes at one time."""
        return max(change.up for change in self.changes)

    @property
    def node_h(self) -> float:
        """Hours of nodes that were up, added together."""
        ends = [*(c.at_s for c in self.changes[1:]), self.span_s]
        pairs = zip(self.changes, ends, strict=True)
        return sum(c.up * (end - c.at_s) for c, end in pairs) / 3600

    @property
    def drops(self) -> tuple[int, ...]:
        """How many nodes each loss took."""
        return tuple(change.lost for change in self.changes[1:] if change.lost)

    @property
    def away_node_h(self) -> float:
        """Hours of nodes that were missing from the peak."""
        return self.peak * self.span_s / 3600 - self.node_h

    def replay(self) -> Replay:
        """Give the trace as shares of its peak."""
        peak = self.peak
        return Replay(
            at_s=tuple(c.at_s for c in self.changes),
            up=tuple(c.up / peak for c in self.changes),
            span_s=self.span_s,
        )


def trace_of_counts(
    name: str,
    counts: list[tuple[float, int]],
    *,
    format_: str,
    kind: Kind,
    repairs: tuple[str, ...] = (),
    span_s: float | None = None,
) -> Trace:
    """Give a trace from (seconds, nodes up) in order; equal neighbours are one."""
    start = counts[0][0]
    changes: list[Change] = []
    for at_s, up in counts:
        before = changes[-1].up if changes else up
        if changes and up == before:
            continue
        lost, added = max(0, before - up), max(0, up - before)
        changes.append(Change(at_s - start, up, lost, added))
    span = counts[-1][0] - start if span_s is None else span_s
    return Trace(name, format_, kind, tuple(changes), max(span, 1.0), repairs)
