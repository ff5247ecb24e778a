"""A recorded market: nodes over time, and the market that is fitted to it."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from chaos.errors import UsageError
from chaos.extensions.preflight.capacity import Floats
from chaos.extensions.preflight.estimate import Estimate
from chaos.extensions.preflight.market import (
    Doubt,
    Exponential,
    LossNotice,
    Market,
    Replay,
    Shock,
    TraceNodes,
    Weibull,
)
from chaos.wording import plural

_TOGETHER = 2  # nodes that go at one instant, from here on: by a shock, not by their own law
Kind: TypeAlias = Literal["held", "probes"]


@dataclass(frozen=True)
class NodeLife:
    """The hours that a node was there."""

    hours: float
    #: false if something else cut it off
    is_over: bool


@dataclass(frozen=True)
class TraceChange:
    """A change of the nodes that are up."""

    at_s: float
    #: the nodes from `at_s` on
    up: int
    #: at that instant
    lost: int
    #: likewise
    added: int
    #: those of `added` that take places that had been held before; the others are the first in
    #: theirs
    back: int
    #: the nodes of the most so far that are absent from then on
    missing: int
    #: false after a gap, which may hide any number of changes
    is_seen: bool = True


@dataclass(frozen=True)
class Trace:
    """Changes in order, the first at 0.

    Gaps, whose changes are unknown, are cut out.
    """

    name: str
    format: str
    #: `held`: nodes that a user held, so that a drop is a loss; `probes`: nodes that were
    #: available; a drop there means less capacity, and is no evidence about the life of a held node
    kind: Kind
    changes: tuple[TraceChange, ...]
    #: the observed time
    span_s: float
    #: corrections made while reading
    repairs: tuple[str, ...] = ()
    #: those of nodes that are seen from their beginning, if the format names nodes
    lives: tuple[NodeLife, ...] = ()

    @property
    def peak(self) -> int:
        """The most nodes at one time."""
        return max(change.up for change in self.changes)

    @property
    def node_h(self) -> float:
        """Hours of nodes that were up, added together."""
        return sum(change.up * hours for change, hours in self._change_hours())

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
        return sum(change.missing * hours for change, hours in self._change_hours())

    def _change_hours(self) -> Iterator[tuple[TraceChange, float]]:
        """Yield each change with the hours until the next."""
        ends = [*(c.at_s for c in self.changes[1:]), self.span_s]
        for change, end_s in zip(self.changes, ends, strict=True):
            yield change, (end_s - change.at_s) / 3600

    def replay(self) -> Replay:
        """Return the trace as shares of its peak."""
        peak = self.peak
        at_s, up = zip(*((change.at_s, change.up / peak) for change in self.changes), strict=True)
        return Replay(at_s=at_s, up=up, span_s=self.span_s, peak=peak)


def build_trace(
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
    peak = 0
    for row, (at_s, up) in enumerate(counts):
        if row in gaps:
            # Hours of a gap are no hours without a loss. In Bamboo's A100 trace 15.9 of 27.0 h are
            # gaps: a node lived 10.1 h with them, and 4.1 h without.
            cut_s += at_s - counts[row - 1][0]
        previous_up = changes[-1].up if changes else up
        if changes and up == previous_up:
            continue
        lost, added = max(0, previous_up - up), max(0, up - previous_up)
        # Nodes that come for the first time are no return of lost ones, or the time that a lost
        # node is away would be fitted too short.
        back, peak = min(added, max(0, peak - previous_up)), max(peak, up)
        change = TraceChange(at_s - cut_s, up, lost, added, back, peak - up, row not in gaps)
        changes.append(change)
    span = counts[-1][0] - cut_s if span_s is None else span_s
    return Trace(name, format_, kind, tuple(changes), max(span, 1.0))


def find_lives(
    events: Iterable[tuple[float, str, Sequence[str]]], *, end_s: float
) -> tuple[NodeLife, ...]:
    """Return the lives in a trace's (second, `add` or `remove`, nodes), in order.

    Nodes that were there when it began are left out, since their age is unknown. A
    life that ends together with others ended by a shock, and one that lasts to the
    end of the trace continues: for both only a lower bound is known.
    """
    ordered = list(events)
    start_s = ordered[0][0] if ordered else 0.0
    loss_counts = Counter[float]()
    for at_s, event_kind, nodes in ordered:
        loss_counts[at_s] += len(nodes) * (event_kind == "remove")
    start_times_s: dict[str, float] = {}
    lives: list[NodeLife] = []
    for at_s, event_kind, nodes in ordered:
        for node in nodes:
            if event_kind == "add" and at_s > start_s:
                start_times_s[node] = at_s
            elif event_kind == "remove" and node in start_times_s:
                # A node that goes with others says only that it lived at least so long: the instant
                # was the shock's choice. Counted as ends of lives, shocks would make every fitted
                # life shorter, and the market has shocks beside.
                lives.append(
                    NodeLife((at_s - start_times_s.pop(node)) / 3600, loss_counts[at_s] < _TOGETHER)
                )
    lives += [NodeLife((end_s - at_s) / 3600, is_over=False) for at_s in start_times_s.values()]
    return tuple(life for life in lives if life.hours > 0)


# -- resampling ---------------------------------------------------------------------------------


def count_losses(replay: Replay) -> int:
    """Count the losses in a trace, each of one node or more."""
    return sum(next_up < previous_up for previous_up, next_up in pairwise(replay.up))


def count_pieces(losses: int) -> int:
    """Return the number of pieces to cut a trace into: half its losses, between 4 and 40."""
    return max(4, min(40, losses // 2))


def resample_trace(replay: Replay, rng: np.random.Generator) -> Replay:
    """Return a trace of the same length, joined from pieces of one.

    A piece begins at a moment at which as many nodes are up as at the end of
    the piece before, so that no joint is a loss: matched blocks, Carlstein and
    others 1998, Bernoulli 4(3). A piece that passes the trace's end continues at
    the beginning; a drop there counts as one more loss.
    """
    times_s, up = np.asarray(replay.at_s), np.asarray(replay.up)
    durations_s = np.diff(np.append(times_s, replay.span_s))
    pieces = count_pieces(count_losses(replay))
    changes: list[tuple[float, float]] = []
    now_s, row = 0.0, _draw_index(durations_s, rng)
    left_s = float(durations_s[row] * rng.random())
    for piece in range(1, pieces + 1):
        until_s = replay.span_s * (piece / pieces)  # for the last piece, exactly the end
        while now_s < until_s:
            if not changes or changes[-1][1] != up[row]:
                changes.append((now_s, float(up[row])))
            step_s = min(left_s, until_s - now_s)
            now_s, left_s = now_s + step_s, left_s - step_s
            if left_s <= 0:
                row = (row + 1) % len(times_s)
                left_s = float(durations_s[row])
        # Weighted by how long each lasts: a moment is drawn, and not a row of the trace.
        matching_weights = np.where(up == changes[-1][1], durations_s, 0.0)
        row = _draw_index(matching_weights if matching_weights.any() else durations_s, rng)
        left_s = float(durations_s[row] * rng.random())
    if len(changes) == 1:  # no change: a replay needs two equal entries
        changes.append((replay.span_s / 2, changes[0][1]))
    at_s, shares = zip(*changes, strict=True)
    return replay.replace(at_s=at_s, up=shares)


def _draw_index(weights: Floats, rng: np.random.Generator) -> int:
    return int(rng.choice(len(weights), p=weights / weights.sum()))


# -- lifetimes ----------------------------------------------------------------------------------

ENOUGH = 30  # lives that ended, to choose between the laws
CLEARLY = 2.0  # of AIC: within it both laws have support, and the simpler one is taken


@dataclass(frozen=True)
class LifetimeLaw:
    """The chosen law of lives: None is exponential."""

    weibull: Weibull | None
    #: the reason of the choice
    why: str


def choose_law(lives: Sequence[NodeLife]) -> LifetimeLaw:
    """Choose between exponential and Weibull by Akaike's criterion (1974), if lives are enough.

    Weibull has one parameter more, and is chosen if its criterion is lower by more
    than 2 (Burnham and Anderson 2002: within that both have support).
    """
    ended_count, why = sum(life.is_over for life in lives), None
    if not lives:
        why = "no node in it is seen from its beginning"
    elif ended_count < ENOUGH:
        why = (
            f"{ended_count} nodes are seen from their beginning to a loss of their own ({ENOUGH} "
            "needed)"
        )
    if why is not None:
        return LifetimeLaw(None, f"lives are taken as exponential: {why}")
    hours = np.array([life.hours for life in lives])
    ended_flags = np.array([float(life.is_over) for life in lives])
    weibull_fit = fit_weibull(hours, is_over=ended_flags)
    exponential_fit = Weibull(scale_h=hours.sum() / ended_count, shape=1.0)
    gain = _aic(hours, ended_flags, exponential_fit, free=1) - _aic(
        hours, ended_flags, weibull_fit, free=2
    )
    summary = f"AIC of Weibull lives (shape {weibull_fit.shape:.2f}, {ended_count} that ended) is"
    if gain > CLEARLY:
        return LifetimeLaw(
            weibull_fit, f"{summary} {gain:.1f} below that of exponential ones: they are taken"
        )
    side = f"only {gain:.1f} below" if gain > 0 else f"{-gain:.1f} above"
    return LifetimeLaw(None, f"{summary} {side} that of exponential ones, which are taken")


def fit_weibull(lives_h: Floats, *, is_over: Floats | None = None) -> Weibull:
    """Return the most likely Weibull for lives in hours; `is_over` is 0 for one that was cut off.

    The shape is the zero of the profile likelihood's slope, which is monotonic; it is
    searched between 0.05 and 50.
    """
    over = np.ones(len(lives_h)) if is_over is None else np.asarray(is_over, dtype=float)
    lives = np.asarray(lives_h, dtype=float)
    if over.sum() < 2 or (lives <= 0).any():  # noqa: PLR2004
        raise UsageError("a Weibull needs at least two lives that ended, all above 0 h")
    logs = np.log(lives / lives.max())
    mean_log = (logs * over).sum() / over.sum()

    def slope(shape: float) -> float:
        powers = np.exp(shape * logs)
        return float(1 / shape + mean_log - (powers * logs).sum() / powers.sum())

    low, high = 0.05, 50.0
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    scale = lives.max() * float(np.exp(low * logs).sum() / over.sum()) ** (1 / low)
    return Weibull(scale_h=scale, shape=low)


def _aic(hours: Floats, over: Floats, life: Weibull, *, free: int) -> float:
    """Return 2 k - 2 log L of lives, of which some were cut off."""
    shape, ages = life.shape, hours / life.scale_h
    logs = over * (math.log(shape / life.scale_h) + (shape - 1) * np.log(ages)) - ages**shape
    return 2 * free - 2 * float(logs.sum())


# -- the market ---------------------------------------------------------------------------------

# Of the events of a trace, for the intervals of what is fitted to it (bootstrap).
RESAMPLES = 1_000
# Losses below which a fit says little; docs/notes/0006 has the rule for traces that are repeated.
FEW = 10


@dataclass(frozen=True)
class FittedMarket:
    """A market fitted to a trace."""

    market: Market
    #: node-hours per node lost
    mtbf_h: Estimate
    #: the share of losses that took more than one node
    together: Estimate
    #: hours that a missing node stayed away
    away_h: Estimate
    notes: tuple[str, ...]


def fit_market(
    trace: Trace, *, notice: LossNotice, price_ratio: float, seed: int = 0
) -> FittedMarket:
    """Fit nodes that go up and down, and shocks that take several, to a trace.

    A Markov model: single losses at a rate per node, shocks at a rate of their
    own that take each node with one probability, and returns at a rate per
    missing node. Each rate is events over exposure, the likelihood's maximum;
    intervals come from resampling stretches of the trace, and their worse ends
    are the market's doubt. If the trace names its nodes and has enough of them from
    their beginning, their lives may be Weibull's. If no node ever returned, the
    absence is all the time that nodes were missing. A node counts as missing if more
    were held before, so that one that joins for the first time is no return. Raises
    `UsageError` if nothing was lost.
    """
    if not trace.drops:
        raise UsageError(
            "no node is lost in it",
            "A market cannot be learnt from it: give a longer trace, or a --market by name.",
            location=trace.name,
        )
    rows = _split_trace(trace)
    figures = _estimate_figures(rows.sum(axis=0))
    rng = np.random.Generator(np.random.PCG64(seed))
    picks = rng.integers(0, len(rows), (RESAMPLES, len(rows)))
    resampled_figures = np.array([_estimate_figures(rows[pick].sum(axis=0)) for pick in picks])
    mtbf, together, away_estimate = (
        Estimate(value, *np.quantile(column, [0.025, 0.975], method="inverted_cdf").tolist())
        for value, column in zip(figures, resampled_figures.T, strict=True)
    )
    law = choose_law(trace.lives)
    market = Market(
        name=f"fitted to {trace.name.rsplit('/', maxsplit=1)[-1]}",
        lifetime=law.weibull or Exponential(mtbf_h=trace.node_h / max(trace.drops.count(1), 0.5)),
        shock=_fit_shock(trace),
        away_h=round(_bound_away_h(away_estimate.value, trace), 6),
        doubt=_find_doubt(mtbf, away_estimate, trace),
        trace_nodes=TraceNodes(most=trace.peak),
        notice=notice,
        price_ratio=price_ratio,
        source=f"fitted to {_describe_losses(trace)} in {trace.span_s / 3600:.1f} h",
    )
    return FittedMarket(market, mtbf, together, away_estimate, _notes(trace, law))


def build_replay_market(trace: Trace, *, notice: LossNotice, price_ratio: float) -> Market:
    """Return the market that repeats a trace as it was, from a random moment on."""
    return Market(
        name=f"replay of {trace.name.rsplit('/', maxsplit=1)[-1]}",
        replay=trace.replay(),
        trace_nodes=TraceNodes(most=trace.peak),
        notice=notice,
        price_ratio=price_ratio,
        source=f"{trace.format}, {trace.span_s / 3600:.1f} h",
    )


def _split_trace(trace: Trace) -> Floats:
    """Cut a trace into equal parts: node-hours, nodes lost, drops, wide drops, hours away, back."""
    parts = count_pieces(len(trace.drops))
    width_s = trace.span_s / parts
    rows = np.zeros((parts, 6))
    ends = [*(change.at_s for change in trace.changes[1:]), trace.span_s]
    for n, (change, end_s) in enumerate(zip(trace.changes, ends, strict=True)):
        part = min(parts - 1, int(change.at_s / width_s))
        if n and change.is_seen:
            rows[part, 1] += change.lost
            rows[part, 2] += change.lost > 0
            rows[part, 3] += change.lost >= _TOGETHER
            rows[part, 5] += change.back
        at_s = change.at_s
        while at_s < end_s - 1e-9:
            part = min(parts - 1, int((at_s + 1e-9) / width_s))
            until_s = end_s if part == parts - 1 else min(end_s, (part + 1) * width_s)
            hours = (until_s - at_s) / 3600
            rows[part, 0] += change.up * hours
            rows[part, 4] += change.missing * hours
            at_s = until_s
    return rows


def _estimate_figures(sums: Floats) -> tuple[float, float, float]:
    node_h, lost, drops, wide, away_h, returned = sums.tolist()
    return (
        # Losses of a time without nodes are those at the edge of a piece, and no rate.
        node_h / lost if lost and node_h else math.inf,
        wide / drops if drops else 0.0,
        away_h / returned if returned else math.inf,
    )


def _bound_away_h(hours: float, trace: Trace) -> float:
    """Return the hours that a missing node stays away; if none returned, all that were seen."""
    return hours if math.isfinite(hours) else max(trace.away_node_h, trace.span_s / 3600)


def _find_doubt(mtbf: Estimate, away_estimate: Estimate, trace: Trace) -> Doubt:
    longest_h, mean_h = (
        _bound_away_h(away_estimate.high, trace),
        _bound_away_h(away_estimate.value, trace),
    )
    return Doubt(
        losses=max(1.0, round(mtbf.value / mtbf.low, 4)),
        away=max(1.0, round(longest_h / mean_h, 4)) if mean_h else 1.0,
    )


def _fit_shock(trace: Trace) -> Shock | None:
    """Return the shock that fits losses of more than one node: as many, of the sizes seen."""
    multiple_losses = [
        (min(next_change.lost, previous_change.up), previous_change.up)
        for previous_change, next_change in pairwise(trace.changes)
        if next_change.is_seen and next_change.lost >= _TOGETHER
    ]
    if not multiple_losses:
        return None
    share = sum(lost / held_nodes for lost, held_nodes in multiple_losses) / len(multiple_losses)
    return Shock(
        every_h=trace.span_s / 3600 / len(multiple_losses), share=share, seen=tuple(multiple_losses)
    )


def _describe_losses(trace: Trace) -> str:
    return plural(len(trace.drops), "loss", "losses")


def _notes(trace: Trace, law: LifetimeLaw) -> tuple[str, ...]:
    notes = [*trace.repairs, law.why]
    if trace.kind == "probes":
        notes.append(
            "these are probes of what could be had, not nodes that were held: losses of held "
            "nodes may be fewer, and the time until capacity is back is what they show best"
        )
    if not trace.returns:
        notes.append(
            "no node ever comes back in it: how long a lost node is missing is not known; "
            f"{_bound_away_h(math.inf, trace):.3g} h are taken"
        )
    if len(trace.drops) < FEW:
        notes.append(f"only {_describe_losses(trace)}: the intervals are wide")
    return tuple(notes)
