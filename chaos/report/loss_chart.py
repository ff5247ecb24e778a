"""The loss of the baseline and of the run, with faults, lost work and divergence."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import altair as alt

from chaos.check.analysis import RunAnalysis
from chaos.check.curves import LossPoint, build_curves
from chaos.check.divergence import describe_difference, find_divergence
from chaos.check.values import NumberPair
from chaos.model.trigger import AtMoment, Trigger
from chaos.report import chart as ch
from chaos.wording import plural

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
    steps_before: Mapping[int, int]
    #: the number of all steps
    steps: int

    def find_position(self, epoch: int, step: int) -> int:
        """Return the position of a step, 1 for the first of training."""
        return self.steps_before.get(epoch, self.steps) + step

    def find_trigger_position(self, trigger: Trigger) -> int:
        """Return the position of a trigger; a moment of a report lies at its epoch's end."""
        if isinstance(trigger, AtMoment):
            return self.find_position(trigger.epoch + 1, 0)
        return self.find_position(trigger.epoch, trigger.step)

    def list_strands(self) -> list[list[StepPoint]]:
        """Return the spots line by line, each in the order of training."""
        points_by_strand: dict[tuple[Series, int, int], list[StepPoint]] = {}
        for point in self.points:
            points_by_strand.setdefault((point.series, point.rank, point.strand), []).append(point)
        return [
            sorted(strand, key=lambda point: point.position) for strand in points_by_strand.values()
        ]


def build_step_series(analysis: RunAnalysis, ranks: Sequence[int]) -> StepSeries:
    """Lay the steps of these ranks along one axis."""
    points = [point for rank in ranks for point in _build_points(analysis, rank)]
    steps_before = {point.epoch: point.position - point.step for point in points}
    return StepSeries(
        tuple(points), steps_before, max((point.position for point in points), default=0)
    )


def _build_points(analysis: RunAnalysis, rank: int) -> list[StepPoint]:
    drawn_curves = build_curves(analysis, rank=rank)
    series: dict[Series, list[LossPoint]] = {
        "baseline": [point for point in drawn_curves.baseline if not point.lost],
        "lost work": [point for point in drawn_curves.run if point.lost],
        "this run": [point for point in drawn_curves.run if not point.lost],
    }
    return [
        StepPoint(
            name,
            curve_point.attempt,
            rank,
            curve_point.epoch,
            curve_point.step,
            curve_point.position,
            curve_point.loss,
        )
        for name, points in series.items()
        for curve_point in points
    ]


def draw_lost_bands(analysis: RunAnalysis, line: StepSeries) -> alt.LayerChart | None:
    """Shade the steps that each restart discarded."""
    rows = []
    for restart in analysis.restarts:
        lost_count = max(restart.lost_steps_by_rank.values(), default=0)
        if lost_count and restart.epoch is not None:
            repeated_steps = (
                step.step for step in restart.attempt.steps if step.epoch == restart.epoch
            )
            start_position = line.find_position(
                restart.epoch, min(repeated_steps, default=1) - 1
            )  # may be within the epoch
            label = f"{plural(lost_count, 'step')} lost"
            rows.append({"from": start_position, "to": start_position + lost_count, "what": label})
    if not rows:
        return None
    base = alt.Chart(alt.Data(values=rows))
    band = base.mark_rect(color=ch.LOST, opacity=0.16).encode(x="from:Q", x2="to:Q")
    text = base.mark_text(align="left", baseline="bottom", dx=4, dy=-6, color=ch.LOST_TEXT)
    name = text.encode(x="to:Q", y=alt.value("height"), text="what:N")
    return alt.layer(band, name)


def draw_fault_marks(analysis: RunAnalysis, line: StepSeries) -> alt.LayerChart | None:
    """Mark the place of every fault that began.

    A layer holds all names that have one place beside their rule: Altair copies each several
    times, which took seconds for a run of twenty faults.
    """
    begun_injections = [injection for injection in analysis.injections if injection.invocations]
    rows_by_label: dict[tuple[bool, int], list[dict[str, object]]] = {}
    for number, injection in enumerate(begun_injections):
        position = line.find_trigger_position(injection.op.at)
        row: dict[str, object] = {
            "place": position,
            "name": f"✕ {injection.op.kind.replace('_', ' ')}, rank {injection.rank}",
            "fault": str(injection.op),
            "status": injection.outcomes[-1][1].status if injection.outcomes else "not ended",
        }
        # On one line, the names of faults at one place would overlap.
        rows_by_label.setdefault((position > 0.7 * line.steps, 2 + 16 * (number % 3)), []).append(
            row
        )
    if not rows_by_label:
        return None
    all_rows = [row for rows in rows_by_label.values() for row in rows]
    rule = alt.Chart(alt.Data(values=all_rows)).mark_rule(color=ch.FAULT, strokeWidth=1.5)
    tooltip = [alt.Tooltip("fault:N"), alt.Tooltip("status:N")]
    names = [
        _draw_label(*rows, is_left=is_left, dy=dy, color=ch.FAULT)
        for (is_left, dy), rows in rows_by_label.items()
    ]
    return alt.layer(rule.encode(x="place:Q", tooltip=tooltip), *names)


def draw_divergence_rule(
    line: StepSeries, divergent_pair: NumberPair | None, *, is_below_faults: bool
) -> alt.LayerChart | None:
    """Mark the first divergent step; `is_below_faults`: the chart names faults at its top."""
    if divergent_pair is None or divergent_pair.step is None:
        return None
    position = line.find_position(divergent_pair.epoch, divergent_pair.step)
    row = {"place": position, "name": "first divergent step"}
    base = alt.Chart(alt.Data(values=[row]))
    rule = base.mark_rule(color=ch.DIVERGED, strokeWidth=1.5, strokeDash=[2, 3])
    is_left = position > line.steps // 4
    # It is close to the fault more often than not, and would overlap its name.
    text = _draw_label(row, is_left=is_left, dy=50 if is_below_faults else 2, color=ch.DIVERGED)
    return alt.layer(rule.encode(x="place:Q"), text)


def _draw_label(*rows: dict[str, object], is_left: bool, dy: int, color: str) -> alt.Chart:
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
    ch.LegendEntry("baseline", "wide", ch.BASELINE),
    ch.LegendEntry("this run", "line", ch.RUN),
    ch.LegendEntry("lost work", "dash", ch.LOST),
)
_COLORS = {key.name: key.color for key in _KEYS}


def build_loss_charts(analysis: RunAnalysis) -> tuple[ch.Chart, ...]:
    """Return the chart of the whole training, and a close-up of the first divergence.

    Returns no chart if no step has a loss: jobs of trees and of Keras show only metrics.
    """
    divergent_pair = find_divergence(analysis)
    ranks = _select_ranks(analysis, divergent_pair)
    line = build_step_series(analysis, ranks)
    if all(point.loss is None for point in line.points):
        return ()
    charts = [_draw_training(analysis, line, ranks, divergent_pair)]
    if divergent_pair is not None and divergent_pair.step is not None:
        charts.append(
            _draw_close_up(
                line, divergent_pair, line.find_position(divergent_pair.epoch, divergent_pair.step)
            )
        )
    return tuple(charts)


def _select_ranks(analysis: RunAnalysis, divergent_pair: NumberPair | None) -> list[int]:
    """Return the ranks to draw: those that diverged, those with a fault, then the lowest."""
    divergent_ranks = [] if divergent_pair is None else [divergent_pair.rank]
    fault_ranks = [
        injection.rank for injection in analysis.injections if injection.rank is not None
    ]
    all_ranks = sorted({step.rank for attempt in analysis.run.attempts for step in attempt.steps})
    ordered_ranks = [
        rank for rank in (*divergent_ranks, *fault_ranks, *all_ranks) if rank in all_ranks
    ]
    return list(dict.fromkeys(ordered_ranks))[:RANKS_SHOWN]


def _draw_training(
    analysis: RunAnalysis, line: StepSeries, ranks: list[int], divergent_pair: NumberPair | None
) -> ch.Chart:
    marked_positions = {line.find_trigger_position(op.at) for op in analysis.plan.ops}
    if divergent_pair is not None and divergent_pair.step is not None:
        first_position = line.find_position(divergent_pair.epoch, divergent_pair.step)
        marked_positions |= {first_position - 1, first_position}
    layers = [
        draw_lost_bands(analysis, line),
        *_draw_lines(_build_epoch_axis(line), has_rank_choice=True),
        draw_fault_marks(analysis, line),
        draw_divergence_rule(line, divergent_pair, is_below_faults=True),
    ]
    chart = alt.layer(*[layer for layer in layers if layer is not None]).properties(height=300)
    zoom = alt.selection_interval(
        bind="scales",
        encodings=["x"],
        # A wheel or a finger alone must still scroll the page.
        zoom="wheel![event.shiftKey]",
        translate="[pointerdown[event.shiftKey], window:pointerup] > window:pointermove!",
    )
    return ch.draw_chart(
        "loss",
        ch.ChartMarks(
            chart.add_params(_build_rank_choice(ranks), zoom),
            {"steps": _build_rows(_thin_points(line, marked_positions))},
            hover=_draw_hover_points(has_rank_choice=True),
        ),
        title="Loss",
        label=(
            f"Line chart of the training loss of rank {ranks[0]} over {line.steps} steps: "
            f"baseline and this run. {_describe_chart(analysis, divergent_pair)}"
        ),
        caption=(
            "The pale wide line is the baseline, the thin one this run; where they agree, one "
            "lies on the other. Dashed: finished steps that a restart threw away. Shift and wheel "
            "zoom, shift and drag move, a double click resets."
        ),
        keys=_select_keys(line.points),
    )


def _draw_close_up(line: StepSeries, divergent_pair: NumberPair, first_position: int) -> ch.Chart:
    low, high = (
        max(0, first_position - STEPS_AROUND),
        min(line.steps, first_position + STEPS_AROUND) + 1,
    )
    nearby_points = [
        point
        for point in line.points
        if low < point.position < high and point.rank == divergent_pair.rank
    ]
    x = alt.X(
        "position:Q",
        title="steps since the start of training",
        scale=alt.Scale(domain=[low, high], nice=False),
        axis=alt.Axis(grid=False, tickMinStep=1, format="d"),
    )
    rule = draw_divergence_rule(line, divergent_pair, is_below_faults=False)
    chart = alt.layer(*_draw_lines(x, with_points=True), rule)
    finding = (
        f"Rank {divergent_pair.rank}, epoch {divergent_pair.epoch}, step {divergent_pair.step}: "
        f"{divergent_pair.value_name} {describe_difference(divergent_pair)}."
    )
    return ch.draw_chart(
        "divergence",
        ch.ChartMarks(
            chart.properties(height=230),
            {"steps": _build_rows(nearby_points)},
            hover=_draw_hover_points(),
        ),
        title="Where it leaves the baseline",
        label=f"Line chart of the loss around the first divergent step. {finding}",
        caption=f"{finding} First this run's, then the baseline's.",
        keys=_select_keys(nearby_points),
    )


def _select_keys(points: Iterable[StepPoint]) -> list[ch.LegendEntry]:
    shown_series = {point.series for point in points}
    return [key for key in _KEYS if key.name in shown_series]


def _build_epoch_axis(line: StepSeries) -> alt.X:
    interval = max(1, -(-len(line.steps_before) // EPOCHS_NAMED))
    starts = {
        position: epoch for epoch, position in line.steps_before.items() if epoch % interval == 0
    }
    names = ",".join(f"{position}:'epoch {epoch}'" for position, epoch in starts.items())
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


def _draw_lines(
    x: alt.X, *, with_points: bool = False, has_rank_choice: bool = False
) -> list[alt.Chart]:
    color = ch.encode_color("series", _COLORS)
    y = alt.Y("loss:Q", title="loss", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5))
    chart = _build_step_chart(has_rank_choice=has_rank_choice)
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


def _draw_hover_points(*, has_rank_choice: bool = False) -> alt.Chart:
    """Lay invisible points over the lines, so that a finger or a mouse finds each step."""
    chart = _build_step_chart(has_rank_choice=has_rank_choice)
    tooltips = [alt.Tooltip(f"{name}:N") for name in ("series", "rank", "attempt", "epoch", "step")]
    return chart.mark_point(size=90, opacity=0, filled=True, aria=False).encode(
        x="position:Q", y="loss:Q", tooltip=[*tooltips, alt.Tooltip("loss:Q", format=".9g")]
    )


def _build_step_chart(*, has_rank_choice: bool) -> alt.Chart:
    chart = ch.build_named_chart("steps")
    return chart.transform_filter(f"datum.rank === {RANK_SHOWN}") if has_rank_choice else chart


def _build_rank_choice(ranks: list[int]) -> alt.Parameter:
    if len(ranks) == 1:
        return alt.param(name=RANK_SHOWN, value=ranks[0])
    options = sorted(ranks)
    names = [f"rank {rank}" for rank in options]
    return alt.param(
        name=RANK_SHOWN,
        value=ranks[0],
        bind=alt.binding_select(options=options, labels=names, name="Loss of "),
    )


def _thin_points(line: StepSeries, marked_positions: set[int]) -> list[StepPoint]:
    strands = line.list_strands()
    limit = min(POINTS_PER_LINE, POINTS_IN_ALL // max(1, len(strands)))
    return [
        point
        for strand in strands
        for point in thin_rows(
            strand,
            limit,
            value=lambda spot: math.nan if spot.loss is None else spot.loss,
            is_kept=lambda spot: spot.position in marked_positions,
        )
    ]


def _build_rows(points: Iterable[StepPoint]) -> ch.Rows:
    return [
        {
            **asdict(point),
            "strand": point.strand,
            "loss": None if point.loss is None else float(f"{point.loss:.9g}"),
        }
        for point in points
    ]


def _describe_chart(analysis: RunAnalysis, divergent_pair: NumberPair | None) -> str:
    faults = [str(injection.op) for injection in analysis.injections if injection.invocations]
    words = f"Faults: {'; '.join(faults) or 'none'}."
    if analysis.reference is None:
        return f"{words} There is no baseline to compare with."
    if divergent_pair is None:
        return f"{words} No divergence from the baseline was found."
    training_place = f"epoch {divergent_pair.epoch}" + (
        "" if divergent_pair.step is None else f", step {divergent_pair.step}"
    )
    return f"{words} They part at {training_place}, on rank {divergent_pair.rank}."


def thin_rows(
    rows: Sequence[T], limit: int, *, value: Callable[[T], float], is_kept: Callable[[T], bool]
) -> list[T]:
    """Return at most about `limit` rows in order, with every row for which `is_kept` is true.

    The lowest and the highest row of each stretch stay, so that no spike is lost, and so
    does the first row without a number. The first and the last row stay, too.
    """
    if len(rows) <= limit:
        return list(rows)
    stretch = math.ceil(len(rows) / max(1, limit // 2))
    kept_positions = {0, len(rows) - 1}
    kept_positions |= {position for position, row in enumerate(rows) if is_kept(row)}
    for start in range(0, len(rows), stretch):
        positions = range(start, min(start + stretch, len(rows)))
        numbers = [position for position in positions if math.isfinite(value(rows[position]))]
        if len(numbers) < len(positions):
            kept_positions.add(
                next(
                    candidate
                    for candidate in positions
                    if not math.isfinite(value(rows[candidate]))
                )
            )
        if numbers:
            kept_positions.add(min(numbers, key=lambda position: value(rows[position])))
            kept_positions.add(max(numbers, key=lambda position: value(rows[position])))
    return [rows[position] for position in sorted(kept_positions)]
