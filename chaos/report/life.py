"""The life of one worker in one attempt: when it trained, which steps, and which were lost."""

from dataclasses import dataclass

from chaos.check.attempt import Attempt
from chaos.check.trial import Course
from chaos.model.history import History


@dataclass(frozen=True, slots=True)
class LivedStep:
    """A finished step with its time; `is_lost`: a later attempt began before it."""

    time_ns: int
    epoch: int
    step: int
    is_lost: bool


@dataclass(frozen=True, slots=True)
class Life:
    """One worker from its start to its last event."""

    attempt: int
    rank: int
    begin_ns: int
    end_ns: int
    steps: tuple[LivedStep, ...]

    @property
    def lost(self) -> tuple[LivedStep, ...]:
        """The steps that were done again, or should have been."""
        return tuple(step for step in self.steps if step.is_lost)


def lives(course: Course) -> tuple[Life, ...]:
    """Give every worker's life, by attempt and rank."""
    survivors = {step.number for steps in course.lineage.steps.values() for step in steps}
    seen = _seen(course.history)
    found = []
    for attempt in course.attempts:
        steps = _steps(course.history, attempt, survivors)
        for rank in sorted({*attempt.starts, *steps}):
            begin_ns, end_ns = seen[attempt.index, rank]
            rows = tuple(steps.get(rank, ()))
            found.append(Life(attempt.index, rank, begin_ns, end_ns, rows))
    return tuple(found)


def _steps(history: History, attempt: Attempt, survivors: set[int]) -> dict[int, list[LivedStep]]:
    rows: dict[int, list[LivedStep]] = {}
    for step in attempt.steps:
        time_ns, is_lost = history.time_ns(step.number), step.number not in survivors
        row = LivedStep(time_ns, step.epoch, step.step, is_lost)
        rows.setdefault(step.rank, []).append(row)
    return rows


def _seen(history: History) -> dict[tuple[int, int], tuple[int, int]]:
    """Give when a worker was first and last heard of; the chaos controller's words do not count."""
    seen: dict[tuple[int, int], tuple[int, int]] = {}
    for entry in history:
        attempt = getattr(entry.what, "attempt", None)
        rank = getattr(entry.what, "rank", None)
        if attempt is None or rank is None or hasattr(entry.what, "op"):
            continue
        first_ns, _ = seen.get((attempt, rank), (entry.time_ns, 0))
        seen[attempt, rank] = (first_ns, entry.time_ns)
    return seen
