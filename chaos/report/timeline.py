"""The timeline of a run: the attempts of every rank, faults, commits and recoveries, drawn."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import altair as alt

from chaos.check.analysis import RunAnalysis, RunTables
from chaos.check.goodput import Phase, get_ledger
from chaos.model.history import History
from chaos.model.places import AttemptRank
from chaos.report import chart as ch
from chaos.report.goodput import COLORS
from chaos.resume.steps import Step


@dataclass(frozen=True, slots=True)
class TimedStep:
    """A finished step with its time."""

    time_ns: int
    epoch: int
    step: int
    #: a later attempt began before it
    is_lost: bool


@dataclass(frozen=True, slots=True)
class WorkerSpan:
    """One worker from its start to its last event."""

    attempt: int
    rank: int
    begin_ns: int
    end_ns: int
    steps: tuple[TimedStep, ...]


def build_worker_spans(tables: RunTables) -> tuple[WorkerSpan, ...]:
    """Return every worker's life, by attempt and rank."""
    times_by_worker = _find_worker_times(tables.history)
    spans = []
    for attempt in tables.attempts:
        steps = attempt.steps.steps_by_rank
        for rank in sorted({*attempt.starts, *steps}):
            begin_ns, end_ns = times_by_worker[AttemptRank(attempt.index, rank)]
            timed_steps = tuple(_build_timed_step(tables, step) for step in steps.get(rank, ()))
            spans.append(WorkerSpan(attempt.index, rank, begin_ns, end_ns, timed_steps))
    return tuple(spans)


def _build_timed_step(tables: RunTables, step: Step) -> TimedStep:
    is_lost = not tables.lineage.is_surviving(step)
    return TimedStep(tables.history.time_ns(step.number), step.epoch, step.step, is_lost)


def _find_worker_times(history: History) -> dict[AttemptRank, tuple[int, int]]:
    """Return the times of each worker's first and last event, without the chaos controller's."""
    times_by_worker: dict[AttemptRank, tuple[int, int]] = {}
    for entry in history:
        attempt = getattr(entry.event, "attempt", None)
        rank = getattr(entry.event, "rank", None)
        if attempt is None or rank is None or hasattr(entry.event, "op"):
            continue
        worker = AttemptRank(attempt, rank)
        first_ns, _ = times_by_worker.get(worker, (entry.time_ns, 0))
        times_by_worker[worker] = (first_ns, entry.time_ns)
    return times_by_worker


LANES = 16
STEP_TICKS = 1_500
EPOCH_BARS = 1_000
CONTROLLER = "controller"
RECOVERY: tuple[Phase, ...] = ("detect", "teardown", "schedule", "start", "restore")


_Clock: TypeAlias = Callable[[int], float]  # seconds since the run began


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """A stretch of time on a lane."""

    lane: str
    kind: str
    since_s: float
    until_s: float
    what: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class LaneMark:
    """A moment on a lane."""

    lane: str
    kind: str
    at_s: float
    what: str


@dataclass(frozen=True)
class Swimlane:
    """The rows of one chart."""

    lanes: tuple[str, ...]
    bars: tuple[TimelineBar, ...]
    marks: tuple[LaneMark, ...]
    #: the number of ranks that are left out
    hidden: int


def build_swimlane(analysis: RunAnalysis) -> Swimlane:
    """Return the bars and marks of a run, by lane."""
    all_spans = build_worker_spans(analysis.run)
    ranks = _select_ranks(analysis, all_spans)
    shown_spans = [span for span in all_spans if span.rank in ranks]
    begin_ns = analysis.history[0].time_ns if len(analysis.history) else 0

    def clock(time_ns: int) -> float:
        return round((time_ns - begin_ns) / 1e9, 4)

    bars = [
        *_build_epoch_bars(shown_spans, clock),
        *_build_lost_bars(shown_spans, clock),
        *_build_phase_bars(analysis, clock),
    ]
    marks = [
        *_build_step_marks(shown_spans, clock),
        *_build_attempt_marks(analysis, clock),
        *_build_commit_marks(analysis, clock),
        *_build_fault_marks(analysis, clock, ranks),
    ]
    return Swimlane(
        lanes=(CONTROLLER, *(_name_lane(rank) for rank in sorted(ranks))),
        bars=tuple(bars),
        marks=tuple(marks),
        hidden=len({span.rank for span in all_spans}) - len(ranks),
    )


def _name_lane(rank: int | None) -> str:
    return f"rank {rank}"


def _select_ranks(analysis: RunAnalysis, spans: Sequence[WorkerSpan]) -> set[int]:
    fault_ranks = [
        injection.rank for injection in analysis.injections if injection.rank is not None
    ]
    all_ranks = sorted({span.rank for span in spans})
    return set(
        [rank for rank in dict.fromkeys((*fault_ranks, *all_ranks)) if rank in all_ranks][:LANES]
    )


def _build_epoch_bars(spans: Sequence[WorkerSpan], clock: _Clock) -> Iterator[TimelineBar]:
    """Yield each life as one bar per epoch, its start-up within the first.

    If these would be too many to see, a life is one bar.
    """
    starts = [_find_epoch_starts(span) for span in spans]
    is_crowded = sum(len(span_starts) for span_starts in starts) > EPOCH_BARS
    for span, span_starts in zip(spans, starts, strict=True):
        shown_starts = span_starts[:1] if is_crowded else span_starts
        ends = [*(begin_ns for _, begin_ns in shown_starts[1:]), span.end_ns]
        for (epoch, begin_ns), end_ns in zip(shown_starts, ends, strict=True):
            label = "no step" if epoch is None else f"epoch {epoch}"
            yield TimelineBar(
                lane=_name_lane(span.rank),
                kind="odd epoch" if epoch and epoch % 2 else "even epoch",
                since_s=clock(begin_ns),
                until_s=clock(end_ns),
                what=f"attempt {span.attempt}, {label}{' and later' if is_crowded else ''}",
                name="" if epoch is None or is_crowded else str(epoch),
            )


def _find_epoch_starts(span: WorkerSpan) -> list[tuple[int | None, int]]:
    """Return the time at which each epoch of a life began: the end of the step before."""
    if not span.steps:
        return [(None, span.begin_ns)]
    later_starts = [
        (step.epoch, previous_step.time_ns)
        for previous_step, step in pairwise(span.steps)
        if previous_step.epoch != step.epoch
    ]
    return [(span.steps[0].epoch, span.begin_ns), *later_starts]


def _build_lost_bars(spans: Sequence[WorkerSpan], clock: _Clock) -> Iterator[TimelineBar]:
    for span in spans:
        if lost_steps := [step for step in span.steps if step.is_lost]:
            earlier_times = [
                other_step.time_ns
                for other_step in span.steps
                if other_step.time_ns < lost_steps[0].time_ns
            ]
            yield TimelineBar(
                lane=_name_lane(span.rank),
                kind="lost work",
                since_s=clock(max(earlier_times, default=span.begin_ns)),
                until_s=clock(lost_steps[-1].time_ns),
                what=f"{len(lost_steps)} finished steps of attempt {span.attempt} thrown away",
            )


def _build_phase_bars(analysis: RunAnalysis, clock: _Clock) -> Iterator[TimelineBar]:
    """Yield the phases of the controller while no worker trained."""
    for span in get_ledger(analysis).spans:
        if span.phase in RECOVERY:
            label = f"{span.phase}, {span.duration_ns / 1e9:.2f} s, of attempt {span.attempt}"
            yield TimelineBar(
                CONTROLLER, span.phase, clock(span.since_ns), clock(span.until_ns), label
            )


def _build_step_marks(spans: Sequence[WorkerSpan], clock: _Clock) -> Iterator[LaneMark]:
    total = sum(len(span.steps) for span in spans)
    interval = -(-total // STEP_TICKS) or 1
    for span in spans:
        for step in span.steps[::interval]:
            yield LaneMark(
                lane=_name_lane(span.rank),
                kind="step",
                at_s=clock(step.time_ns),
                what=f"attempt {span.attempt}, epoch {step.epoch}, step {step.step}",
            )


def _build_attempt_marks(analysis: RunAnalysis, clock: _Clock) -> Iterator[LaneMark]:
    for attempt in analysis.run.attempts:
        if attempt.group_started is not None:
            at_s = clock(analysis.history.time_ns(attempt.group_started))
            yield LaneMark(CONTROLLER, "attempt", at_s, f"attempt {attempt.index}")


def _build_commit_marks(analysis: RunAnalysis, clock: _Clock) -> Iterator[LaneMark]:
    for attempt in analysis.run.attempts:
        for commit in attempt.commits:
            yield LaneMark(
                lane=CONTROLLER,
                kind="commit",
                at_s=clock(analysis.history.time_ns(commit.number)),
                what=f"epoch {commit.epoch} committed: {commit.checkpoint or 'no checkpoint'}",
            )


def _build_fault_marks(analysis: RunAnalysis, clock: _Clock, ranks: set[int]) -> Iterator[LaneMark]:
    for injection in analysis.injections:
        for number, invoked in injection.invocations:
            status = injection.outcomes[-1][1].status if injection.outcomes else "not ended"
            yield LaneMark(
                lane=_name_lane(invoked.rank) if invoked.rank in ranks else CONTROLLER,
                kind="fault",
                at_s=clock(analysis.history.time_ns(number)),
                what=f"{injection.op} ({status})",
            )


LANE_HEIGHT = 46
NARROWEST_NAMED = 0.03  # of the whole width

_PHASES: dict[str, str] = {phase: COLORS[phase] for phase in RECOVERY}
_EPOCHS = {"even epoch": "var(--epoch-even)", "odd epoch": "var(--epoch-odd)"}
_LOST = {"lost work": ch.LOST}
_PALETTE = {**_EPOCHS, **_LOST, **_PHASES}
_CROSS = "M-1,-.6L-.6,-1L0,-.4L.6,-1L1,-.6L.4,0L1,.6L.6,1L0,.4L-.6,1L-1,.6L-.4,0Z"


def draw_timeline(analysis: RunAnalysis) -> ch.Chart | None:
    """Draw the attempts of every rank over time; None if no worker was ever seen."""
    rows = build_swimlane(analysis)
    if not rows.bars:
        return None
    return ch.draw_chart(
        "timeline",
        _build_drawing(rows),
        title="Timeline",
        label=_describe_timeline(analysis, rows),
        caption=_build_caption(rows),
        keys=_select_keys(rows),
    )


def _build_drawing(rows: Swimlane) -> ch.ChartMarks:
    y = alt.Y("lane:N", title=None, sort=list(rows.lanes), axis=alt.Axis(ticks=False, domain=False))
    # A mark at the last moment needs a little room to be seen whole.
    end_s = 1.01 * max(bar.until_s for bar in rows.bars)
    layers = {
        "epochs": _draw_bars("epochs", y, height=26, end_s=end_s),
        "lost": _draw_bars("lost", y, height=26, end_s=end_s),
        "phases": _draw_bars("phases", y, height=16, end_s=end_s),
        "names": _draw_names(y),
        "attempts": _draw_attempts(y),
        "steps": _draw_ticks(y),
        "marks": _draw_marks(y),
    }
    # A layer without rows has no extent, of which Vega warns.
    filled_tables = {
        name: table_rows for name, table_rows in _build_tables(rows).items() if table_rows
    }
    chart = alt.layer(*[layer for name, layer in layers.items() if name in filled_tables])
    return ch.ChartMarks(chart.properties(height=LANE_HEIGHT * len(rows.lanes)), filled_tables)


def _build_tables(rows: Swimlane) -> dict[str, ch.Rows]:
    bars = [asdict(bar) for bar in rows.bars]
    marks = [asdict(mark) for mark in rows.marks]
    epochs = _filter_kinds(bars, _EPOCHS)
    lost_bars = _filter_kinds(bars, _LOST)
    lost_starts = {(bar["lane"], bar["since_s"]) for bar in lost_bars}
    room_s = NARROWEST_NAMED * max(bar.until_s for bar in rows.bars)
    return {
        "epochs": epochs,
        "lost": lost_bars,
        "phases": _filter_kinds(bars, _PHASES),
        "names": [
            {**bar, "is_lost": (bar["lane"], bar["since_s"]) in lost_starts}
            for bar in epochs
            if bar["until_s"] - bar["since_s"] > room_s
        ],
        "attempts": _drop_overlapping(_filter_kinds(marks, ["attempt"]), min_distance_s=3 * room_s),
        "steps": _filter_kinds(marks, ["step"]),
        "marks": _filter_kinds(marks, ["commit", "fault"]),
    }


def _drop_overlapping(rows: list[dict[str, Any]], *, min_distance_s: float) -> list[dict[str, Any]]:
    """Return the labels without those that would overlap the one before."""
    kept_labels: list[dict[str, Any]] = []
    for row in rows:
        if not kept_labels or row["at_s"] - kept_labels[-1]["at_s"] >= min_distance_s:
            kept_labels.append(row)
    return kept_labels


def _filter_kinds(rows: list[dict[str, Any]], kinds: Collection[str]) -> list[dict[str, Any]]:
    return [row for row in rows if row["kind"] in kinds]


def _draw_bars(name: str, y: alt.Y, *, height: int, end_s: float) -> alt.Chart:
    x = alt.X(
        "since_s:Q",
        title="seconds since the run began",
        scale=alt.Scale(domain=[0, end_s], nice=False),
        axis=alt.Axis(format=",~f"),
    )
    tooltip = [
        alt.Tooltip("what:N"),
        alt.Tooltip("since_s:Q", title="from (s)", format=".2f"),
        alt.Tooltip("until_s:Q", title="to (s)", format=".2f"),
    ]
    color = ch.encode_color("kind", _PALETTE)
    chart = ch.build_named_chart(name).mark_bar(height=height)
    return chart.encode(x=x, x2="until_s:Q", y=y, color=color, tooltip=tooltip)


def _draw_names(y: alt.Y) -> alt.Chart:
    """Write the epoch into each bar."""
    ink = alt.condition("datum.is_lost", alt.value("var(--on-lost)"), alt.value("var(--on-epoch)"))
    text = ch.build_named_chart("names").mark_text(
        align="left", baseline="middle", fontSize=11, dx=4, dy=-4
    )
    return text.encode(x="since_s:Q", y=y, text="name:N", color=ink)


def _draw_attempts(y: alt.Y) -> alt.Chart:
    """Write the attempt above the moment at which its workers were up."""
    text = ch.build_named_chart("attempts").mark_text(
        align="left", baseline="middle", fontSize=11, dy=-17, color=ch.INK
    )
    return text.encode(x="at_s:Q", y=y, text="what:N")


def _draw_ticks(y: alt.Y) -> alt.Chart:
    tick = ch.build_named_chart("steps").mark_tick(
        color="var(--tick)", thickness=1, height=8, yOffset=9
    )
    return tick.encode(x="at_s:Q", y=y, tooltip=_build_moment_tooltip())


def _draw_marks(y: alt.Y) -> alt.Chart:
    scale = alt.Scale(domain=["commit", "fault"], range=["diamond", _CROSS])
    point = ch.build_named_chart("marks").mark_point(
        filled=True, size=170, opacity=1, stroke="var(--bg)", strokeWidth=1
    )
    return point.encode(
        x="at_s:Q",
        y=y,
        shape=alt.Shape("kind:N", scale=scale, legend=None),
        color=alt.condition(alt.datum.kind == "fault", alt.value(ch.FAULT), alt.value(ch.COMMIT)),
        tooltip=_build_moment_tooltip(),
    )


def _build_moment_tooltip() -> list[alt.Tooltip]:
    return [alt.Tooltip("what:N"), alt.Tooltip("at_s:Q", title="at (s)", format=".3f")]


def _select_keys(rows: Swimlane) -> list[ch.LegendEntry]:
    shown_kinds = {bar.kind for bar in rows.bars} | {mark.kind for mark in rows.marks}
    keys = [ch.LegendEntry(kind, "box", color) for kind, color in {**_LOST, **_PHASES}.items()]
    keys += [
        ch.LegendEntry("commit", "diamond", ch.COMMIT),
        ch.LegendEntry("fault", "cross", ch.FAULT),
    ]
    return [key for key in keys if key.name in shown_kinds]


def _build_caption(rows: Swimlane) -> str:
    hidden = f" {rows.hidden} more ranks are not drawn." if rows.hidden else ""
    commits = "commits and " if any(mark.kind == "commit" for mark in rows.marks) else ""
    return (
        "Each bar is one worker's life in one attempt, shaded by epoch; ticks below it are "
        f"finished steps. The controller's lane shows {commits}what each start was spent on."
        f"{hidden}"
    )


def _describe_timeline(analysis: RunAnalysis, rows: Swimlane) -> str:
    faults = [f"{mark.what} at {mark.at_s:.1f} s" for mark in rows.marks if mark.kind == "fault"]
    phases = [bar.what for bar in rows.bars if bar.kind in _PHASES]
    return (
        f"Timeline of {len(rows.lanes) - 1} ranks over {len(analysis.run.attempts)} attempts. "
        f"Faults: {'; '.join(faults) or 'none'}. Starts: {'; '.join(phases) or 'none'}."
    )
