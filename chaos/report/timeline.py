"""The timeline of a run: the attempts of every rank, faults, commits and recoveries, drawn."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import altair as alt

from chaos.check.analysis import RunAnalysis, RunTables
from chaos.check.goodput import Phase, ledger_of
from chaos.check.steps import Step
from chaos.model.history import History
from chaos.model.places import AttemptRank
from chaos.report import chart as ch
from chaos.report.goodput import COLORS


@dataclass(frozen=True, slots=True)
class LivedStep:
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
    steps: tuple[LivedStep, ...]


def worker_spans(tables: RunTables) -> tuple[WorkerSpan, ...]:
    """Return every worker's life, by attempt and rank."""
    seen = _seen(tables.history)
    found = []
    for attempt in tables.attempts:
        steps = attempt.steps.by_rank
        for rank in sorted({*attempt.starts, *steps}):
            begin_ns, end_ns = seen[AttemptRank(attempt.index, rank)]
            rows = tuple(_lived(tables, step) for step in steps.get(rank, ()))
            found.append(WorkerSpan(attempt.index, rank, begin_ns, end_ns, rows))
    return tuple(found)


def _lived(tables: RunTables, step: Step) -> LivedStep:
    is_lost = not tables.lineage.survives(step)
    return LivedStep(tables.history.time_ns(step.number), step.epoch, step.step, is_lost)


def _seen(history: History) -> dict[AttemptRank, tuple[int, int]]:
    """Return the times of each worker's first and last event, without the chaos controller's."""
    seen: dict[AttemptRank, tuple[int, int]] = {}
    for entry in history:
        attempt = getattr(entry.what, "attempt", None)
        rank = getattr(entry.what, "rank", None)
        if attempt is None or rank is None or hasattr(entry.what, "op"):
            continue
        worker = AttemptRank(attempt, rank)
        first_ns, _ = seen.get(worker, (entry.time_ns, 0))
        seen[worker] = (first_ns, entry.time_ns)
    return seen


LANES = 16
STEP_TICKS = 1_500
EPOCH_BARS = 1_000
CONTROLLER = "controller"
RECOVERY: tuple[Phase, ...] = ("detect", "teardown", "schedule", "start", "restore")


_Clock: TypeAlias = Callable[[int], float]  # seconds since the run began


@dataclass(frozen=True, slots=True)
class Bar:
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
    bars: tuple[Bar, ...]
    marks: tuple[LaneMark, ...]
    #: the number of ranks that are left out
    hidden: int


def swimlane(analysis: RunAnalysis) -> Swimlane:
    """Return the bars and marks of a run, by lane."""
    all_lives = worker_spans(analysis.run)
    ranks = _ranks(analysis, all_lives)
    shown = [span for span in all_lives if span.rank in ranks]
    begin_ns = analysis.history[0].time_ns if len(analysis.history) else 0

    def clock(time_ns: int) -> float:
        return round((time_ns - begin_ns) / 1e9, 4)

    bars = [*_epoch_bars(shown, clock), *_lost_bars(shown, clock), *_phase_bars(analysis, clock)]
    marks = [
        *_step_marks(shown, clock),
        *_attempt_marks(analysis, clock),
        *_commit_marks(analysis, clock),
        *_fault_marks(analysis, clock, ranks),
    ]
    return Swimlane(
        lanes=(CONTROLLER, *(_lane(rank) for rank in sorted(ranks))),
        bars=tuple(bars),
        marks=tuple(marks),
        hidden=len({span.rank for span in all_lives}) - len(ranks),
    )


def _lane(rank: int | None) -> str:
    return f"rank {rank}"


def _ranks(analysis: RunAnalysis, rows: Sequence[WorkerSpan]) -> set[int]:
    struck = [injection.rank for injection in analysis.injections if injection.rank is not None]
    known = sorted({span.rank for span in rows})
    return set([rank for rank in dict.fromkeys((*struck, *known)) if rank in known][:LANES])


def _epoch_bars(rows: Sequence[WorkerSpan], clock: _Clock) -> Iterator[Bar]:
    """Yield each life as one bar per epoch, its start-up within the first.

    If these would be too many to see, a life is one bar.
    """
    starts = [_starts(span) for span in rows]
    is_crowded = sum(len(of_life) for of_life in starts) > EPOCH_BARS
    for span, of_life in zip(rows, starts, strict=True):
        shown = of_life[:1] if is_crowded else of_life
        ends = [*(begin_ns for _, begin_ns in shown[1:]), span.end_ns]
        for (epoch, begin_ns), end_ns in zip(shown, ends, strict=True):
            what = "no step" if epoch is None else f"epoch {epoch}"
            yield Bar(
                lane=_lane(span.rank),
                kind="odd epoch" if epoch and epoch % 2 else "even epoch",
                since_s=clock(begin_ns),
                until_s=clock(end_ns),
                what=f"attempt {span.attempt}, {what}{' and later' if is_crowded else ''}",
                name="" if epoch is None or is_crowded else str(epoch),
            )


def _starts(span: WorkerSpan) -> list[tuple[int | None, int]]:
    """Return the time at which each epoch of a life began: the end of the step before."""
    if not span.steps:
        return [(None, span.begin_ns)]
    later = [
        (step.epoch, before.time_ns)
        for before, step in pairwise(span.steps)
        if before.epoch != step.epoch
    ]
    return [(span.steps[0].epoch, span.begin_ns), *later]


def _lost_bars(rows: Sequence[WorkerSpan], clock: _Clock) -> Iterator[Bar]:
    for span in rows:
        if lost := [step for step in span.steps if step.is_lost]:
            earlier = [s.time_ns for s in span.steps if s.time_ns < lost[0].time_ns]
            yield Bar(
                lane=_lane(span.rank),
                kind="lost work",
                since_s=clock(max(earlier, default=span.begin_ns)),
                until_s=clock(lost[-1].time_ns),
                what=f"{len(lost)} finished steps of attempt {span.attempt} thrown away",
            )


def _phase_bars(analysis: RunAnalysis, clock: _Clock) -> Iterator[Bar]:
    """Yield the phases of the controller while no worker trained."""
    for span in ledger_of(analysis).spans:
        if span.phase in RECOVERY:
            what = f"{span.phase}, {span.ns / 1e9:.2f} s, of attempt {span.attempt}"
            yield Bar(CONTROLLER, span.phase, clock(span.since_ns), clock(span.until_ns), what)


def _step_marks(rows: Sequence[WorkerSpan], clock: _Clock) -> Iterator[LaneMark]:
    total = sum(len(span.steps) for span in rows)
    every = -(-total // STEP_TICKS) or 1
    for span in rows:
        for step in span.steps[::every]:
            yield LaneMark(
                lane=_lane(span.rank),
                kind="step",
                at_s=clock(step.time_ns),
                what=f"attempt {span.attempt}, epoch {step.epoch}, step {step.step}",
            )


def _attempt_marks(analysis: RunAnalysis, clock: _Clock) -> Iterator[LaneMark]:
    for attempt in analysis.run.attempts:
        if attempt.group_started is not None:
            at_s = clock(analysis.history.time_ns(attempt.group_started))
            yield LaneMark(CONTROLLER, "attempt", at_s, f"attempt {attempt.index}")


def _commit_marks(analysis: RunAnalysis, clock: _Clock) -> Iterator[LaneMark]:
    for attempt in analysis.run.attempts:
        for commit in attempt.commits:
            yield LaneMark(
                lane=CONTROLLER,
                kind="commit",
                at_s=clock(analysis.history.time_ns(commit.number)),
                what=f"epoch {commit.epoch} committed: {commit.checkpoint or 'no checkpoint'}",
            )


def _fault_marks(analysis: RunAnalysis, clock: _Clock, ranks: set[int]) -> Iterator[LaneMark]:
    for injection in analysis.injections:
        for number, invoked in injection.invoked:
            status = injection.ended[-1][1].status if injection.ended else "not ended"
            yield LaneMark(
                lane=_lane(invoked.rank) if invoked.rank in ranks else CONTROLLER,
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


def timeline(analysis: RunAnalysis) -> ch.Chart | None:
    """Draw the attempts of every rank over time; None if no worker was ever seen."""
    rows = swimlane(analysis)
    if not rows.bars:
        return None
    return ch.drawn(
        "timeline",
        _drawing(rows),
        title="Timeline",
        label=_in_words(analysis, rows),
        caption=_caption(rows),
        keys=_keys(rows),
    )


def _drawing(rows: Swimlane) -> ch.Drawing:
    y = alt.Y("lane:N", title=None, sort=list(rows.lanes), axis=alt.Axis(ticks=False, domain=False))
    # A mark at the last moment needs a little room to be seen whole.
    end_s = 1.01 * max(bar.until_s for bar in rows.bars)
    layers = {
        "epochs": _bars("epochs", y, height=26, end_s=end_s),
        "lost": _bars("lost", y, height=26, end_s=end_s),
        "phases": _bars("phases", y, height=16, end_s=end_s),
        "names": _names(y),
        "attempts": _attempts(y),
        "steps": _ticks(y),
        "marks": _marks(y),
    }
    # A layer without rows has no extent, of which Vega warns.
    full = {name: found for name, found in _tables(rows).items() if found}
    chart = alt.layer(*[layer for name, layer in layers.items() if name in full])
    return ch.Drawing(chart.properties(height=LANE_HEIGHT * len(rows.lanes)), full)


def _tables(rows: Swimlane) -> dict[str, ch.Rows]:
    bars = [asdict(bar) for bar in rows.bars]
    marks = [asdict(mark) for mark in rows.marks]
    epochs = _of_kinds(bars, _EPOCHS)
    lost = _of_kinds(bars, _LOST)
    over_lost = {(bar["lane"], bar["since_s"]) for bar in lost}
    room_s = NARROWEST_NAMED * max(bar.until_s for bar in rows.bars)
    return {
        "epochs": epochs,
        "lost": lost,
        "phases": _of_kinds(bars, _PHASES),
        "names": [
            {**bar, "is_lost": (bar["lane"], bar["since_s"]) in over_lost}
            for bar in epochs
            if bar["until_s"] - bar["since_s"] > room_s
        ],
        "attempts": _apart(_of_kinds(marks, ["attempt"]), least_s=3 * room_s),
        "steps": _of_kinds(marks, ["step"]),
        "marks": _of_kinds(marks, ["commit", "fault"]),
    }


def _apart(rows: list[dict[str, Any]], *, least_s: float) -> list[dict[str, Any]]:
    """Return the labels without those that would overlap the one before."""
    kept: list[dict[str, Any]] = []
    for row in rows:
        if not kept or row["at_s"] - kept[-1]["at_s"] >= least_s:
            kept.append(row)
    return kept


def _of_kinds(rows: list[dict[str, Any]], kinds: Collection[str]) -> list[dict[str, Any]]:
    return [row for row in rows if row["kind"] in kinds]


def _bars(name: str, y: alt.Y, *, height: int, end_s: float) -> alt.Chart:
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
    color = ch.colored("kind", _PALETTE)
    chart = ch.named(name).mark_bar(height=height)
    return chart.encode(x=x, x2="until_s:Q", y=y, color=color, tooltip=tooltip)


def _names(y: alt.Y) -> alt.Chart:
    """Write the epoch into each bar."""
    ink = alt.condition("datum.is_lost", alt.value("var(--on-lost)"), alt.value("var(--on-epoch)"))
    text = ch.named("names").mark_text(align="left", baseline="middle", fontSize=11, dx=4, dy=-4)
    return text.encode(x="since_s:Q", y=y, text="name:N", color=ink)


def _attempts(y: alt.Y) -> alt.Chart:
    """Write the attempt above the moment at which its workers were up."""
    text = ch.named("attempts").mark_text(
        align="left", baseline="middle", fontSize=11, dy=-17, color=ch.INK
    )
    return text.encode(x="at_s:Q", y=y, text="what:N")


def _ticks(y: alt.Y) -> alt.Chart:
    tick = ch.named("steps").mark_tick(color="var(--tick)", thickness=1, height=8, yOffset=9)
    return tick.encode(x="at_s:Q", y=y, tooltip=_moment())


def _marks(y: alt.Y) -> alt.Chart:
    scale = alt.Scale(domain=["commit", "fault"], range=["diamond", _CROSS])
    point = ch.named("marks").mark_point(
        filled=True, size=170, opacity=1, stroke="var(--bg)", strokeWidth=1
    )
    return point.encode(
        x="at_s:Q",
        y=y,
        shape=alt.Shape("kind:N", scale=scale, legend=None),
        color=alt.condition(alt.datum.kind == "fault", alt.value(ch.FAULT), alt.value(ch.COMMIT)),
        tooltip=_moment(),
    )


def _moment() -> list[alt.Tooltip]:
    return [alt.Tooltip("what:N"), alt.Tooltip("at_s:Q", title="at (s)", format=".3f")]


def _keys(rows: Swimlane) -> list[ch.Key]:
    seen = {bar.kind for bar in rows.bars} | {mark.kind for mark in rows.marks}
    keys = [ch.Key(kind, "box", color) for kind, color in {**_LOST, **_PHASES}.items()]
    keys += [ch.Key("commit", "diamond", ch.COMMIT), ch.Key("fault", "cross", ch.FAULT)]
    return [key for key in keys if key.name in seen]


def _caption(rows: Swimlane) -> str:
    hidden = f" {rows.hidden} more ranks are not drawn." if rows.hidden else ""
    commits = "commits and " if any(mark.kind == "commit" for mark in rows.marks) else ""
    return (
        "Each bar is one worker's life in one attempt, shaded by epoch; ticks below it are "
        f"finished steps. The controller's lane shows {commits}what each start was spent on."
        f"{hidden}"
    )


def _in_words(analysis: RunAnalysis, rows: Swimlane) -> str:
    faults = [f"{m.what} at {m.at_s:.1f} s" for m in rows.marks if m.kind == "fault"]
    phases = [bar.what for bar in rows.bars if bar.kind in _PHASES]
    return (
        f"Timeline of {len(rows.lanes) - 1} ranks over {len(analysis.run.attempts)} attempts. "
        f"Faults: {'; '.join(faults) or 'none'}. Starts: {'; '.join(phases) or 'none'}."
    )
