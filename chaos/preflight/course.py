"""What became of one run, in the figures that the model is held against."""

from dataclasses import dataclass

from chaos.check.trial import Trial
from chaos.model.event import ControllerState, FailureDecided, FitCalled
from chaos.model.history import History
from chaos.preflight.measured import step_s

# Of Ray 2.60: a state of its controller, and what it raises where a placement group is not ready.
SCHEDULING, NO_ROOM = "SCHEDULING", "WorkerGroupStartupTimeoutError"
FIGURES = (
    ("attempts", "", "attempts"),
    ("steps lost", "", "lost_steps"),
    ("finish", "s", "finish_s"),
    ("goodput", "", "goodput"),
)


@dataclass(frozen=True)
class Course:
    """One run: attempts, steps lost per rank, seconds from where it began to the last commit.

    An attempt is a start that a loss made necessary, whether it came to train or not; one in
    which an elastic job takes in nodes again is none.
    """

    attempts: float
    lost_steps: float
    finish_s: float
    goodput: float


def course_of(trial: Trial, *, steps: int) -> Course | None:
    """Measure a run of a job of so many steps; None where it did not finish.

    Its time begins when Ray's controller first looks for places for workers: how long the
    controller itself takes to start is no part of a forecast. Its goodput counts a step as long
    as its own steps were.
    """
    began, attempts = _began(trial.history), trial.run.attempts
    ended = [commit.number for attempt in attempts for commit in attempt.commits]
    if began is None or not ended or not trial.run.ending.is_finished:
        return None
    finish_s = (trial.history.time_ns(max(ended)) - trial.history.time_ns(began)) / 1e9
    lost = sum(max(restart.lost_steps.values(), default=0) for restart in trial.restarts)
    own_step_s = step_s([(trial.history, attempt) for attempt in attempts])
    failures = sum(_is_loss(event) for _, event in trial.history.of(FailureDecided))
    return Course(1 + failures, lost, finish_s, steps * own_step_s / finish_s)


def _began(history: History) -> int | None:
    states = history.of(ControllerState)
    scheduling = (number for number, event in states if event.state == SCHEDULING)
    called = (number for number, _ in history.of(FitCalled))
    return next(scheduling, next(called, None))


def _is_loss(event: FailureDecided) -> bool:
    """Say whether a failure is one of workers; a start that found no room is none."""
    return event.decision == "RETRY" and NO_ROOM not in event.error
