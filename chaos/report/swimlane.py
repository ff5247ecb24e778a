"""What every rank did at every moment, as rows on a clock: bars, marks and phases."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from chaos.check.goodput import Phase, ledger_of
from chaos.check.trial import Trial
from chaos.report.life import Life, lives

LANES = 16
STEP_TICKS = 1_500
EPOCH_BARS = 1_000
CONTROLLER = "controller"
RECOVERY: tuple[Phase, ...] = ("detect", "teardown", "schedule", "start", "restore")


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
class Mark:
    """A moment on a lane."""

    lane: str
    kind: str
    at_s: float
    what: str


@dataclass(frozen=True)
class Swimlane:
    """The rows of one chart; `hidden` counts the ranks that it leaves out."""

    lanes: tuple[str, ...]
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    hidden: int


def swimlane(trial: Trial) -> Swimlane:
    """Lay a run out on its lanes."""
    all_lives = lives(trial.run)
    ranks = _ranks(trial, all_lives)
    shown = [life for life in all_lives if life.rank in ranks]
    clock = _Clock(trial.history[0].time_ns if len(trial.history) else 0)
    bars = [*_epochs(shown, clock), *_lost(shown, clock), *_phases(trial, clock)]
    marks = [
        *_steps(shown, clock),
        *_attempts(trial, clock),
        *_commits(trial, clock),
        *_faults(trial, clock, ranks),
    ]
    return Swimlane(
        lanes=(CONTROLLER, *(_lane(rank) for rank in sorted(ranks))),
        bars=tuple(bars),
        marks=tuple(marks),
        hidden=len({life.rank for life in all_lives}) - len(ranks),
    )


@dataclass(frozen=True)
class _Clock:
    begin_ns: int

    def s(self, time_ns: int) -> float:
        return round((time_ns - self.begin_ns) / 1e9, 4)


def _lane(rank: int | None) -> str:
    return f"rank {rank}"


def _ranks(trial: Trial, rows: Sequence[Life]) -> set[int]:
    struck = [strike.rank for strike in trial.strikes if strike.rank is not None]
    known = sorted({life.rank for life in rows})
    return set([rank for rank in dict.fromkeys((*struck, *known)) if rank in known][:LANES])


def _epochs(rows: Sequence[Life], clock: _Clock) -> Iterator[Bar]:
    """Give each life as one bar per epoch, its start-up within the first.

    Where that would be too many to see, a life is one bar.
    """
    starts = [_starts(life) for life in rows]
    is_crowded = sum(len(of_life) for of_life in starts) > EPOCH_BARS
    for life, of_life in zip(rows, starts, strict=True):
        shown = of_life[:1] if is_crowded else of_life
        ends = [*(begin_ns for _, begin_ns in shown[1:]), life.end_ns]
        for (epoch, begin_ns), end_ns in zip(shown, ends, strict=True):
            what = "no step" if epoch is None else f"epoch {epoch}"
            yield Bar(
                lane=_lane(life.rank),
                kind="odd epoch" if epoch and epoch % 2 else "even epoch",
                since_s=clock.s(begin_ns),
                until_s=clock.s(end_ns),
                what=f"attempt {life.attempt}, {what}{' and later' if is_crowded else ''}",
                name="" if epoch is None or is_crowded else str(epoch),
            )


def _starts(life: Life) -> list[tuple[int | None, int]]:
    """Give when each epoch of a life began: as the step before its first was finished."""
    if not life.steps:
        return [(None, life.begin_ns)]
    later = [
        (step.epoch, before.time_ns)
        for before, step in pairwise(life.steps)
        if before.epoch != step.epoch
    ]
    return [(life.steps[0].epoch, life.begin_ns), *later]


def _lost(rows: Sequence[Life], clock: _Clock) -> Iterator[Bar]:
    for life in rows:
        if life.lost:
            first_ns = life.lost[0].time_ns
            earlier = [s.time_ns for s in life.steps if s.time_ns < first_ns]
            yield Bar(
                lane=_lane(life.rank),
                kind="lost work",
                since_s=clock.s(max(earlier, default=life.begin_ns)),
                until_s=clock.s(life.lost[-1].time_ns),
                what=f"{len(life.lost)} finished steps of attempt {life.attempt} thrown away",
            )


def _phases(trial: Trial, clock: _Clock) -> Iterator[Bar]:
    """Give what the controller's time went to while nobody trained."""
    for span in ledger_of(trial).spans:
        if span.phase in RECOVERY:
            what = f"{span.phase}, {span.ns / 1e9:.2f} s, of attempt {span.attempt}"
            yield Bar(CONTROLLER, span.phase, clock.s(span.since_ns), clock.s(span.until_ns), what)


def _steps(rows: Sequence[Life], clock: _Clock) -> Iterator[Mark]:
    total = sum(len(life.steps) for life in rows)
    every = -(-total // STEP_TICKS) or 1
    for life in rows:
        for step in life.steps[::every]:
            yield Mark(
                lane=_lane(life.rank),
                kind="step",
                at_s=clock.s(step.time_ns),
                what=f"attempt {life.attempt}, epoch {step.epoch}, step {step.step}",
            )


def _attempts(trial: Trial, clock: _Clock) -> Iterator[Mark]:
    for attempt in trial.run.attempts:
        if attempt.opened is not None:
            at_s = clock.s(trial.history.time_ns(attempt.opened))
            yield Mark(CONTROLLER, "attempt", at_s, f"attempt {attempt.index}")


def _commits(trial: Trial, clock: _Clock) -> Iterator[Mark]:
    for attempt in trial.run.attempts:
        for commit in attempt.commits:
            yield Mark(
                lane=CONTROLLER,
                kind="commit",
                at_s=clock.s(trial.history.time_ns(commit.number)),
                what=f"epoch {commit.epoch} committed: {commit.checkpoint or 'no checkpoint'}",
            )


def _faults(trial: Trial, clock: _Clock, ranks: set[int]) -> Iterator[Mark]:
    for strike in trial.strikes:
        for number, invoked in strike.invoked:
            status = strike.ended[-1][1].status if strike.ended else "not ended"
            yield Mark(
                lane=_lane(invoked.rank) if invoked.rank in ranks else CONTROLLER,
                kind="fault",
                at_s=clock.s(trial.history.time_ns(number)),
                what=f"{strike.op} ({status})",
            )
