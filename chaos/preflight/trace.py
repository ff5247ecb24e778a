"""A recorded market: the number of nodes that were up, over time."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from chaos.preflight.market import Replay

_TOGETHER = 2
Kind: TypeAlias = Literal["held", "probes"]


@dataclass(frozen=True)
class NodeLife:
    """The hours that a node was there; `is_over` is false if something else cut it off."""

    hours: float
    is_over: bool


@dataclass(frozen=True)
class TraceChange:
    """From `at_s` on, `up` nodes; `lost` and `added` at that instant.

    Of the added nodes, `back` take places that had been held before; the others are
    the first in theirs. From then on, `missing` nodes of the most so far are absent.
    `is_seen` is false after a gap, which may hide any number of changes.
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

    `held`: nodes that a user held, so that a drop is a loss. `probes`: nodes that were
    available; a drop there means less capacity, and is no evidence about the life of a
    held node. `repairs` lists corrections made while reading. Gaps, whose changes are
    unknown, are cut out: `span_s` is the observed time. `lives`: those of nodes that are
    seen from their beginning, if the format names nodes.
    """

    name: str
    format: str
    kind: Kind
    changes: tuple[TraceChange, ...]
    span_s: float
    repairs: tuple[str, ...] = ()
    lives: tuple[NodeLife, ...] = ()

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
        """The number of nodes of each observed loss."""
        return tuple(c.lost for c in self.changes[1:] if c.lost and c.is_seen)

    @property
    def returns(self) -> int:
        """The number of nodes that came back into places held before."""
        return sum(change.back for change in self.changes[1:] if change.is_seen)

    @property
    def away_node_h(self) -> float:
        """Hours of nodes that were missing from the most so far."""
        return sum(change.missing * hours for change, hours in self._lasting())

    def _lasting(self) -> Iterator[tuple[TraceChange, float]]:
        """Yield each change with the hours until the next."""
        ends = [*(c.at_s for c in self.changes[1:]), self.span_s]
        for change, end_s in zip(self.changes, ends, strict=True):
            yield change, (end_s - change.at_s) / 3600

    def replay(self) -> Replay:
        """Return the trace as shares of its peak."""
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
    """Return a trace from (seconds, nodes up) in order; equal neighbours are one.

    `gaps` are the rows after a time with unknown changes, which is cut out.
    """
    cut_s = counts[0][0]
    changes: list[TraceChange] = []
    most = 0
    for row, (at_s, up) in enumerate(counts):
        if row in gaps:
            cut_s += at_s - counts[row - 1][0]
        before = changes[-1].up if changes else up
        if changes and up == before:
            continue
        lost, added = max(0, before - up), max(0, up - before)
        back, most = min(added, max(0, most - before)), max(most, up)
        change = TraceChange(at_s - cut_s, up, lost, added, back, most - up, row not in gaps)
        changes.append(change)
    span = counts[-1][0] - cut_s if span_s is None else span_s
    return Trace(name, format_, kind, tuple(changes), max(span, 1.0))


def lives_in(
    events: Iterable[tuple[float, str, Sequence[str]]], *, end_s: float
) -> tuple[NodeLife, ...]:
    """Return the lives in a trace's (second, `add` or `remove`, nodes), in order.

    Nodes that were there when it began are left out, since their age is unknown. A
    life that ends together with others ended by a shock, and one that lasts to the
    end of the trace continues: for both only a lower bound is known.
    """
    ordered = list(events)
    since_s = ordered[0][0] if ordered else 0.0
    gone = Counter[float]()
    for at_s, what, nodes in ordered:
        gone[at_s] += len(nodes) * (what == "remove")
    born: dict[str, float] = {}
    lives: list[NodeLife] = []
    for at_s, what, nodes in ordered:
        for node in nodes:
            if what == "add" and at_s > since_s:
                born[node] = at_s
            elif what == "remove" and node in born:
                lives.append(NodeLife((at_s - born.pop(node)) / 3600, gone[at_s] < _TOGETHER))
    lives += [NodeLife((end_s - at_s) / 3600, is_over=False) for at_s in born.values()]
    return tuple(life for life in lives if life.hours > 0)
