"""A record of a market that somebody kept: how many nodes were up, and when."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from chaos.preflight.lives import Life
from chaos.preflight.market import Replay

Kind: TypeAlias = Literal["held", "probes"]


@dataclass(frozen=True)
class Change:
    """From `at_s` on, `up` nodes; `lost` and `added` at that instant.

    Of the added, `back` take places that had been held before; the others are
    the first in theirs. `missing` nodes of the most so far are not there from
    then on. `is_seen`: not where a gap lies before it, of which nobody knows
    how many changes it hides.
    """

    at_s: float
    up: int
    lost: int
    added: int
    back: int
    missing: int
    is_seen: bool = True


@dataclass(frozen=True)
class Trace:
    """Changes in order, the first at 0.

    `held`: nodes that someone held, so that a drop is a loss. `probes`: what
    could have been had; a drop there says that capacity was gone, and nothing
    of how long a node that one holds would have lived. `repairs` lists what
    was put right while reading. Gaps, of which nobody knows what happened in
    them, are cut out: `span_s` is the time that was seen. `lives`: those of
    nodes that are seen from their beginning, where the format names nodes.
    """

    name: str
    format: str
    kind: Kind
    changes: tuple[Change, ...]
    span_s: float
    repairs: tuple[str, ...] = ()
    lives: tuple[Life, ...] = ()

    @property
    def peak(self) -> int:
        """The most nodes at one time."""
        return max(change.up for change in self.changes)

    @property
    def node_h(self) -> float:
        """Hours of nodes that were up, added together."""
        return sum(change.up * hours for change, hours in self._lasting())

    @property
    def drops(self) -> tuple[int, ...]:
        """How many nodes each loss took that was seen."""
        return tuple(c.lost for c in self.changes[1:] if c.lost and c.is_seen)

    @property
    def returns(self) -> int:
        """How many nodes came back into places that had been held before."""
        return sum(change.back for change in self.changes[1:] if change.is_seen)

    @property
    def away_node_h(self) -> float:
        """Hours of nodes that were missing from the most so far."""
        return sum(change.missing * hours for change, hours in self._lasting())

    def _lasting(self) -> Iterator[tuple[Change, float]]:
        """Give each change with the hours until the next."""
        ends = [*(c.at_s for c in self.changes[1:]), self.span_s]
        for change, end_s in zip(self.changes, ends, strict=True):
            yield change, (end_s - change.at_s) / 3600

    def replay(self) -> Replay:
        """Give the trace as shares of its peak."""
        peak = self.peak
        return Replay(
            at_s=tuple(c.at_s for c in self.changes),
            up=tuple(c.up / peak for c in self.changes),
            span_s=self.span_s,
            peak=peak,
        )


def trace_of_counts(
    name: str,
    counts: list[tuple[float, int]],
    *,
    format_: str,
    kind: Kind,
    span_s: float | None = None,
    gaps: Collection[int] = (),
) -> Trace:
    """Give a trace from (seconds, nodes up) in order; equal neighbours are one.

    `gaps` are the rows before which nobody knows what happened: that time is cut out.
    """
    cut_s = counts[0][0]
    changes: list[Change] = []
    most = 0
    for row, (at_s, up) in enumerate(counts):
        if row in gaps:
            cut_s += at_s - counts[row - 1][0]
        before = changes[-1].up if changes else up
        if changes and up == before:
            continue
        lost, added = max(0, before - up), max(0, up - before)
        back, most = min(added, max(0, most - before)), max(most, up)
        change = Change(at_s - cut_s, up, lost, added, back, most - up, row not in gaps)
        changes.append(change)
    span = counts[-1][0] - cut_s if span_s is None else span_s
    return Trace(name, format_, kind, tuple(changes), max(span, 1.0))
