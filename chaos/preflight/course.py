"""What became of one run, in the four figures that the model is held against."""

from dataclasses import dataclass

from chaos.check.trial import Trial
from chaos.model.event import FitCalled
from chaos.preflight.measured import step_s

FIGURES = (
    ("attempts", "", "attempts"),
    ("steps lost", "", "lost_steps"),
    ("finish", "s", "finish_s"),
    ("goodput", "", "goodput"),
)


@dataclass(frozen=True)
class Course:
    """One run: attempts, steps lost per rank, seconds from where it began to the last commit."""

    attempts: float
    lost_steps: float
    finish_s: float
    goodput: float


def course_of(trial: Trial, *, steps: int) -> Course | None:
    """Measure a run of a job of so many steps from `fit()` on; None where it did not finish.

    Its goodput counts a step as long as its own steps were.
    """
    called = next((number for number, _ in trial.history.of(FitCalled)), None)
    attempts = trial.run.attempts
    ended = [commit.number for attempt in attempts for commit in attempt.commits]
    if called is None or not ended or not trial.run.ending.is_finished:
        return None
    finish_s = (trial.history.time_ns(max(ended)) - trial.history.time_ns(called)) / 1e9
    lost = sum(max(restart.lost_steps.values(), default=0) for restart in trial.restarts)
    own_step_s = step_s([(trial.history, attempt) for attempt in attempts])
    return Course(len(attempts), lost, finish_s, steps * own_step_s / finish_s)
