"""The loss of the baseline and of the struck run, with faults, lost work and divergence."""

from collections.abc import Iterable
from typing import Any

import altair as alt

from chaos.check.comparison import Divergence
from chaos.check.trajectory import difference, divergence
from chaos.check.trial import Trial
from chaos.report import chart as ch
from chaos.report import note
from chaos.report.thin import thinned
from chaos.report.track import Spot, Track, track

POINTS_PER_LINE = 2_000
POINTS_IN_ALL = 8_000  # a page of many ranks stays below 3 MB
RANKS_SHOWN = 8
EPOCHS_NAMED = 12
STEPS_AROUND = 8
RANK_SHOWN = "rank_shown"

_STROKES: dict[str, dict[str, Any]] = {
    "baseline": {"strokeWidth": 6, "opacity": 0.45, "strokeCap": "round"},
    "this run": {"strokeWidth": 1.8},
    # On top, so that it shows where it was done again as before.
    "lost work": {"strokeWidth": 2.5, "strokeDash": [4, 3]},
}
_COLORS = [ch.BASELINE, ch.RUN, ch.LOST]
_KEYS = (
    ch.Key("baseline", "wide", ch.BASELINE),
    ch.Key("this run", "line", ch.RUN),
    ch.Key("lost work", "dash", ch.LOST),
)


def curves(trial: Trial) -> tuple[ch.Chart, ...]:
    """Give the chart of the whole training, and a closer one where the run left the baseline.

    None where no step has a loss: of trees and of Keras's batches only reported metrics are seen.
    """
    apart = divergence(trial)
    ranks = _ranks(trial, apart)
    line = track(trial, ranks)
    if all(spot.loss is None for spot in line.spots):
        return ()
    charts = [_whole(trial, line, ranks, apart)]
    if apart is not None and apart.step is not None:
        charts.append(_close_up(line, apart, line.at(apart.epoch, apart.step)))
    return tuple(charts)


def _ranks(trial: Trial, apart: Divergence | None) -> list[int]:
    """Choose the ranks to draw: who diverged, who was struck, then the lowest."""
    first = [] if apart is None else [apart.rank]
    struck = [strike.rank for strike in trial.strikes if strike.rank is not None]
    known = sorted({step.rank for attempt in trial.run.attempts for step in attempt.steps})
    wanted = [rank for rank in (*first, *struck, *known) if rank in known]
    return list(dict.fromkeys(wanted))[:RANKS_SHOWN]


def _whole(trial: Trial, line: Track, ranks: list[int], apart: Divergence | None) -> ch.Chart:
    marked = {line.at_trigger(op.at) for op in trial.plan.ops}
    if apart is not None and apart.step is not None:
        first = line.at(apart.epoch, apart.step)
        marked |= {first - 1, first}
    layers = [
        note.lost_bands(trial, line),
        *_lines(_x_of_epochs(line), of_chosen_rank=True),
        note.faults(trial, line),
        note.divergence_rule(line, apart, below_faults=True),
    ]
    chart = alt.layer(*[layer for layer in layers if layer is not None]).properties(height=300)
    zoom = alt.selection_interval(
        bind="scales",
        encodings=["x"],
        # A wheel and a finger alone must go on to scroll the page.
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
            f"baseline and this run. {_in_words(trial, apart)}"
        ),
        caption=(
            "The pale wide line is the baseline, the thin one this run; where they agree, one "
            "lies on the other. Dashed: finished steps that a restart threw away. Shift and wheel "
            "zoom, shift and drag move, a double click resets."
        ),
        keys=_keys(line.spots),
    )


def _close_up(line: Track, apart: Divergence, first: int) -> ch.Chart:
    low, high = max(0, first - STEPS_AROUND), min(line.steps, first + STEPS_AROUND) + 1
    near = [s for s in line.spots if low < s.position < high and s.rank == apart.rank]
    x = alt.X(
        "position:Q",
        title="steps since the start of training",
        scale=alt.Scale(domain=[low, high], nice=False),
        axis=alt.Axis(grid=False, tickMinStep=1, format="d"),
    )
    rule = note.divergence_rule(line, apart, below_faults=False)
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


def _keys(spots: Iterable[Spot]) -> list[ch.Key]:
    seen = {spot.series for spot in spots}
    return [key for key in _KEYS if key.name in seen]


def _x_of_epochs(line: Track) -> alt.X:
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
    color = alt.Color(
        "series:N",
        scale=alt.Scale(domain=list(_STROKES), range=_COLORS),
        legend=None,
    )
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


def _thin(line: Track, marked: set[int]) -> list[Spot]:
    strands = line.strands()
    limit = min(POINTS_PER_LINE, POINTS_IN_ALL // max(1, len(strands)))
    return [
        spot
        for strand in strands
        for spot in thinned(strand, limit, value=_height, keep=lambda s: s.position in marked)
    ]


def _height(spot: Spot) -> float:
    return float("nan") if spot.loss is None else spot.loss


def _rows(spots: Iterable[Spot]) -> ch.Rows:
    return [
        {
            "series": spot.series,
            "strand": spot.strand,
            "attempt": spot.attempt,
            "rank": spot.rank,
            "epoch": spot.epoch,
            "step": spot.step,
            "position": spot.position,
            "loss": None if spot.loss is None else float(f"{spot.loss:.9g}"),
        }
        for spot in spots
    ]


def _in_words(trial: Trial, apart: Divergence | None) -> str:
    faults = [str(strike.op) for strike in trial.strikes if strike.invoked]
    told = f"Faults: {'; '.join(faults) or 'none'}."
    if trial.reference is None:
        return f"{told} There is no baseline to compare with."
    if apart is None:
        return f"{told} No divergence from the baseline was found."
    place = f"epoch {apart.epoch}" + ("" if apart.step is None else f", step {apart.step}")
    return f"{told} They part at {place}, on rank {apart.rank}."
