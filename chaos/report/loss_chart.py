"""The loss of the baseline and of the run, with faults, lost work and divergence."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import altair as alt

from chaos.check.analysis import RunAnalysis
from chaos.check.curves import Point, curves
from chaos.check.divergence import difference, divergence
from chaos.check.values import NumberPair
from chaos.model.trigger import AtMoment, Trigger
from chaos.report import chart as ch
from chaos.words import plural

T = TypeVar("T")
Series: TypeAlias = Literal["baseline", "this run", "lost work"]


@dataclass(frozen=True, slots=True)
class StepPoint:
    """One step of one rank in the chart."""

    series: Series
    attempt: int
    rank: int
    epoch: int
    step: int
    position: int
    #: None if the loss is no number
    loss: float | None

    @property
    def strand(self) -> int:
        """The number of its line in the series: one line for all attempts, but for lost work."""
        return self.attempt if self.series == "lost work" else 0


@dataclass(frozen=True)
class StepSeries:
    """The steps of some ranks."""

    points: tuple[StepPoint, ...]
    #: the number of steps before each epoch
    before: Mapping[int, int]
    #: the number of all steps
    steps: int

    def at(self, epoch: int, step: int) -> int:
        """Return the position of a step, 1 for the first of training."""
        return self.before.get(epoch, self.steps) + step

    def at_trigger(self, trigger: Trigger) -> int:
        """Return the position of a trigger; a moment of a report lies at its epoch's end."""
        if isinstance(trigger, AtMoment):
            return self.at(trigger.epoch + 1, 0)
        return self.at(trigger.epoch, trigger.step)

    def strands(self) -> list[list[StepPoint]]:
        """Return the spots line by line, each in the order of training."""
        found: dict[tuple[Series, int, int], list[StepPoint]] = {}
        for point in self.points:
            found.setdefault((point.series, point.rank, point.strand), []).append(point)
        return [sorted(strand, key=lambda point: point.position) for strand in found.values()]


def step_series(analysis: RunAnalysis, ranks: Sequence[int]) -> StepSeries:
    """Lay the steps of these ranks along one axis."""
    points = [point for rank in ranks for point in _points_of(analysis, rank)]
    before = {point.epoch: point.position - point.step for point in points}
    return StepSeries(tuple(points), before, max((point.position for point in points), default=0))


def _points_of(analysis: RunAnalysis, rank: int) -> list[StepPoint]:
    drawn = curves(analysis, rank=rank)
    series: dict[Series, list[Point]] = {
        "baseline": [point for point in drawn.baseline if not point.lost],
        "lost work": [point for point in drawn.run if point.lost],
        "this run": [point for point in drawn.run if not point.lost],
    }
    return [
        StepPoint(name, p.attempt, rank, p.epoch, p.step, p.position, p.loss)
        for name, points in series.items()
        for p in points
    ]


def lost_bands(analysis: RunAnalysis, line: StepSeries) -> alt.LayerChart | None:
    """Shade the steps that each restart discarded."""
    rows = []
    for restart in analysis.restarts:
        lost = max(restart.lost_steps.values(), default=0)
        if lost and restart.epoch is not None:
            again = (s.step for s in restart.attempt.steps if s.epoch == restart.epoch)
            since = line.at(restart.epoch, min(again, default=1) - 1)  # may be within the epoch
            what = f"{plural(lost, 'step')} lost"
            rows.append({"from": since, "to": since + lost, "what": what})
    if not rows:
        return None
    base = alt.Chart(alt.Data(values=rows))
    band = base.mark_rect(color=ch.LOST, opacity=0.16).encode(x="from:Q", x2="to:Q")
    text = base.mark_text(align="left", baseline="bottom", dx=4, dy=-6, color=ch.LOST_TEXT)
    name = text.encode(x="to:Q", y=alt.value("height"), text="what:N")
    return alt.layer(band, name)


def fault_marks(analysis: RunAnalysis, line: StepSeries) -> alt.LayerChart | None:
    """Mark the place of every fault that began.

    A layer holds all names that have one place beside their rule: Altair copies each several
    times, which took seconds for a run of twenty faults.
    """
    begun = [injection for injection in analysis.injections if injection.invoked]
    beside: dict[tuple[bool, int], list[dict[str, object]]] = {}
    for nth, injection in enumerate(begun):
        place = line.at_trigger(injection.op.at)
        row: dict[str, object] = {
            "place": place,
            "name": f"✕ {injection.op.kind.replace('_', ' ')}, rank {injection.rank}",
            "fault": str(injection.op),
            "status": injection.ended[-1][1].status if injection.ended else "not ended",
        }
        # On one line, the names of faults at one place would overlap.
        beside.setdefault((place > 0.7 * line.steps, 2 + 16 * (nth % 3)), []).append(row)
    if not beside:
        return None
    every = [row for rows in beside.values() for row in rows]
    rule = alt.Chart(alt.Data(values=every)).mark_rule(color=ch.FAULT, strokeWidth=1.5)
    tooltip = [alt.Tooltip("fault:N"), alt.Tooltip("status:N")]
    names = [
        _label(*rows, is_left=is_left, dy=dy, color=ch.FAULT)
        for (is_left, dy), rows in beside.items()
    ]
    return alt.layer(rule.encode(x="place:Q", tooltip=tooltip), *names)


def divergence_rule(
    line: StepSeries, apart: NumberPair | None, *, below_faults: bool
) -> alt.LayerChart | None:
    """Mark the first divergent step; `below_faults`: the chart names faults in its first rows."""
    if apart is None or apart.step is None:
        return None
    place = line.at(apart.epoch, apart.step)
    row = {"place": place, "name": "first divergent step"}
    base = alt.Chart(alt.Data(values=[row]))
    rule = base.mark_rule(color=ch.DIVERGED, strokeWidth=1.5, strokeDash=[2, 3])
    is_left = place > line.steps // 4
    # It is close to the fault more often than not, and would overlap its name.
    text = _label(row, is_left=is_left, dy=50 if below_faults else 2, color=ch.DIVERGED)
    return alt.layer(rule.encode(x="place:Q"), text)


def _label(*rows: dict[str, object], is_left: bool, dy: int, color: str) -> alt.Chart:
    """Return the texts beside some rules."""
    text = alt.Chart(alt.Data(values=[*rows])).mark_text(
        align="right" if is_left else "left",
        baseline="top",
        dx=-6 if is_left else 6,
        dy=dy,
        color=color,
        fontWeight=600,
    )
    return text.encode(x="place:Q", y=alt.value(0), text="name:N")


POINTS_PER_LINE = 2_000
POINTS_IN_ALL = 8_000  # a page of many ranks stays below 3 MB
RANKS_SHOWN = 8
EPOCHS_NAMED = 12
STEPS_AROUND = 8
RANK_SHOWN = "rank_shown"

_STROKES: dict[str, dict[str, Any]] = {
    "baseline": {"strokeWidth": 6, "opacity": 0.45, "strokeCap": "round"},
    "this run": {"strokeWidth": 1.8},
    # On top, so that it is visible if the recomputed steps are equal.
    "lost work": {"strokeWidth": 2.5, "strokeDash": [4, 3]},
}
_KEYS = (
    ch.Key("baseline", "wide", ch.BASELINE),
    ch.Key("this run", "line", ch.RUN),
    ch.Key("lost work", "dash", ch.LOST),
)
_COLORS = {key.name: key.color for key in _KEYS}


def loss_charts(analysis: RunAnalysis) -> tuple[ch.Chart, ...]:
    """Return the chart of the whole training, and a close-up of the first divergence.

    Returns no chart if no step has a loss: jobs of trees and of Keras show only metrics.
    """
    apart = divergence(analysis)
    ranks = _ranks(analysis, apart)
    line = step_series(analysis, ranks)
    if all(point.loss is None for point in line.points):
        return ()
    charts = [_whole(analysis, line, ranks, apart)]
    if apart is not None and apart.step is not None:
        charts.append(_close_up(line, apart, line.at(apart.epoch, apart.step)))
    return tuple(charts)


def _ranks(analysis: RunAnalysis, apart: NumberPair | None) -> list[int]:
    """Return the ranks to draw: those that diverged, those with a fault, then the lowest."""
    first = [] if apart is None else [apart.rank]
    struck = [injection.rank for injection in analysis.injections if injection.rank is not None]
    known = sorted({step.rank for attempt in analysis.run.attempts for step in attempt.steps})
    wanted = [rank for rank in (*first, *struck, *known) if rank in known]
    return list(dict.fromkeys(wanted))[:RANKS_SHOWN]


def _whole(
    analysis: RunAnalysis, line: StepSeries, ranks: list[int], apart: NumberPair | None
) -> ch.Chart:
    marked = {line.at_trigger(op.at) for op in analysis.plan.ops}
    if apart is not None and apart.step is not None:
        first = line.at(apart.epoch, apart.step)
        marked |= {first - 1, first}
    layers = [
        lost_bands(analysis, line),
        *_lines(_x_of_epochs(line), of_chosen_rank=True),
        fault_marks(analysis, line),
        divergence_rule(line, apart, below_faults=True),
    ]
    chart = alt.layer(*[layer for layer in layers if layer is not None]).properties(height=300)
    zoom = alt.selection_interval(
        bind="scales",
        encodings=["x"],
        # A wheel or a finger alone must still scroll the page.
        zoom="wheel![event.shiftKey]",
        translate="[pointerdown[event.shiftKey], window:pointerup] > window:pointermove!",
    )
    return ch.drawn(
        "loss",
        ch.Drawing(
            chart.add_params(_choice_of(ranks), zoom),
            {"steps": _rows(_thin(line, marked))},
            hover=_hover(of_chosen_rank=True),
        ),
        title="Loss",
        label=(
            f"Line chart of the training loss of rank {ranks[0]} over {line.steps} steps: "
            f"baseline and this run. {_in_words(analysis, apart)}"
        ),
        caption=(
            "The pale wide line is the baseline, the thin one this run; where they agree, one "
            "lies on the other. Dashed: finished steps that a restart threw away. Shift and wheel "
            "zoom, shift and drag move, a double click resets."
        ),
        keys=_keys(line.points),
    )


def _close_up(line: StepSeries, apart: NumberPair, first: int) -> ch.Chart:
    low, high = max(0, first - STEPS_AROUND), min(line.steps, first + STEPS_AROUND) + 1
    near = [s for s in line.points if low < s.position < high and s.rank == apart.rank]
    x = alt.X(
        "position:Q",
        title="steps since the start of training",
        scale=alt.Scale(domain=[low, high], nice=False),
        axis=alt.Axis(grid=False, tickMinStep=1, format="d"),
    )
    rule = divergence_rule(line, apart, below_faults=False)
    chart = alt.layer(*_lines(x, with_points=True), rule)
    found = (
        f"Rank {apart.rank}, epoch {apart.epoch}, step {apart.step}: "
        f"{apart.what} {difference(apart)}."
    )
    return ch.drawn(
        "divergence",
        ch.Drawing(chart.properties(height=230), {"steps": _rows(near)}, hover=_hover()),
        title="Where it leaves the baseline",
        label=f"Line chart of the loss around the first divergent step. {found}",
        caption=f"{found} First this run's, then the baseline's.",
        keys=_keys(near),
    )


def _keys(points: Iterable[StepPoint]) -> list[ch.Key]:
    seen = {point.series for point in points}
    return [key for key in _KEYS if key.name in seen]


def _x_of_epochs(line: StepSeries) -> alt.X:
    every = max(1, -(-len(line.before) // EPOCHS_NAMED))
    starts = {place: epoch for epoch, place in line.before.items() if epoch % every == 0}
    names = ",".join(f"{place}:'epoch {epoch}'" for place, epoch in starts.items())
    return alt.X(
        "position:Q",
        title=None,
        scale=alt.Scale(domain=[0, max(1, line.steps)], nice=False),
        axis=alt.Axis(
            values=sorted(starts),
            labelExpr=f"({{{names}}})[datum.value]",
            labelAlign="left",
            labelOverlap=True,
            ticks=False,
        ),
    )


def _lines(x: alt.X, *, with_points: bool = False, of_chosen_rank: bool = False) -> list[alt.Chart]:
    color = ch.colored("series", _COLORS)
    y = alt.Y("loss:Q", title="loss", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5))
    chart = _steps(of_chosen_rank=of_chosen_rank)
    base = chart.encode(x=x, y=y, color=color, detail="strand:N", order="position:Q")
    return [
        base.transform_filter(f"datum.series === '{series}'").mark_line(
            clip=True,
            point={"filled": True, "size": 28} if with_points else False,
            invalid="break-paths-show-domains",
            **stroke,
        )
        for series, stroke in _STROKES.items()
    ]


def _hover(*, of_chosen_rank: bool = False) -> alt.Chart:
    """Lay invisible points over the lines, so that a finger or a mouse finds each step."""
    chart = _steps(of_chosen_rank=of_chosen_rank)
    words = [alt.Tooltip(f"{name}:N") for name in ("series", "rank", "attempt", "epoch", "step")]
    return chart.mark_point(size=90, opacity=0, filled=True, aria=False).encode(
        x="position:Q", y="loss:Q", tooltip=[*words, alt.Tooltip("loss:Q", format=".9g")]
    )


def _steps(*, of_chosen_rank: bool) -> alt.Chart:
    chart = ch.named("steps")
    return chart.transform_filter(f"datum.rank === {RANK_SHOWN}") if of_chosen_rank else chart


def _choice_of(ranks: list[int]) -> alt.Parameter:
    if len(ranks) == 1:
        return alt.param(name=RANK_SHOWN, value=ranks[0])
    options = sorted(ranks)
    names = [f"rank {rank}" for rank in options]
    return alt.param(
        name=RANK_SHOWN,
        value=ranks[0],
        bind=alt.binding_select(options=options, labels=names, name="Loss of "),
    )


def _thin(line: StepSeries, marked: set[int]) -> list[StepPoint]:
    strands = line.strands()
    limit = min(POINTS_PER_LINE, POINTS_IN_ALL // max(1, len(strands)))
    return [
        point
        for strand in strands
        for point in thinned(
            strand,
            limit,
            value=lambda s: math.nan if s.loss is None else s.loss,
            keep=lambda s: s.position in marked,
        )
    ]


def _rows(points: Iterable[StepPoint]) -> ch.Rows:
    return [
        {
            **asdict(point),
            "strand": point.strand,
            "loss": None if point.loss is None else float(f"{point.loss:.9g}"),
        }
        for point in points
    ]


def _in_words(analysis: RunAnalysis, apart: NumberPair | None) -> str:
    faults = [str(injection.op) for injection in analysis.injections if injection.invoked]
    words = f"Faults: {'; '.join(faults) or 'none'}."
    if analysis.reference is None:
        return f"{words} There is no baseline to compare with."
    if apart is None:
        return f"{words} No divergence from the baseline was found."
    place = f"epoch {apart.epoch}" + ("" if apart.step is None else f", step {apart.step}")
    return f"{words} They part at {place}, on rank {apart.rank}."


def thinned(
    rows: Sequence[T], limit: int, *, value: Callable[[T], float], keep: Callable[[T], bool]
) -> list[T]:
    """Return at most about `limit` rows in order, with every row for which `keep` is true.

    The lowest and the highest row of each stretch stay, so that no spike is lost, and so
    does the first row without a number. The first and the last row stay, too.
    """
    if len(rows) <= limit:
        return list(rows)
    stretch = math.ceil(len(rows) / max(1, limit // 2))
    chosen = {0, len(rows) - 1}
    chosen |= {place for place, row in enumerate(rows) if keep(row)}
    for start in range(0, len(rows), stretch):
        places = range(start, min(start + stretch, len(rows)))
        numbers = [place for place in places if math.isfinite(value(rows[place]))]
        if len(numbers) < len(places):
            chosen.add(next(p for p in places if not math.isfinite(value(rows[p]))))
        if numbers:
            chosen.add(min(numbers, key=lambda place: value(rows[place])))
            chosen.add(max(numbers, key=lambda place: value(rows[place])))
    return [rows[place] for place in sorted(chosen)]
