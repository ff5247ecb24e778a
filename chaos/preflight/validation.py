"""The model held against recorded runs: told only where they were struck, what does it predict?"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from chaos.check.attempt import Attempt
from chaos.check.trial import Trial
from chaos.errors import UsageError
from chaos.preflight.change import changed
from chaos.preflight.question import Question
from chaos.preflight.runs import Runs

_LUCK = np.array([[0.0], [1.0], [0.0], [1.0]])  # hit, not told, and what then does not matter
_FOR_EVER_S = 1e12


@dataclass(frozen=True)
class Comparison:
    """One figure, as means over runs."""

    figure: str
    runs: int
    predicted: float
    measured: float

    @property
    def difference(self) -> float:
        """How far the prediction is off, as a share of what was measured."""
        if self.measured == 0:
            return 0.0 if self.predicted == 0 else float("inf")
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class Course:
    """One run: attempts, steps lost per rank, seconds from where it began to the last commit."""

    attempts: float
    lost_steps: float
    finish_s: float
    goodput: float


def validated(question: Question, trials: Sequence[Trial]) -> tuple[Comparison, ...]:
    """Compare predicted and measured attempts, lost steps, finish times and goodput.

    `question` holds the costs and the length of the job that was recorded.
    Runs count that were struck without notice and came to their end; raises
    `UsageError` where there is none.
    """
    pairs = [pair for trial in trials if (pair := _pair(question, trial)) is not None]
    if not pairs:
        raise UsageError("no recorded run was struck without notice and finished")
    figures = {
        "attempts": "attempts",
        "steps lost": "lost_steps",
        "finish, s": "finish_s",
        "goodput": "goodput",
    }
    return tuple(
        Comparison(
            name,
            len(pairs),
            fmean(getattr(predicted, field) for predicted, _ in pairs),
            fmean(getattr(measured, field) for _, measured in pairs),
        )
        for name, field in figures.items()
    )


def _pair(question: Question, trial: Trial) -> tuple[Course, Course] | None:
    attempts, restarts, costs = trial.run.attempts, trial.restarts, question.costs
    assert costs is not None
    ended = [commit.number for attempt in attempts for commit in attempt.commits]
    is_whole = trial.run.ending.is_finished and restarts and ended and attempts[0].steps
    if not is_whole or any(strike.op.preempt_node for strike in trial.strikes):
        return None
    # The model's clock begins before the first start; the record's is laid onto it at step 1.
    first_s = trial.history.time_ns(attempts[0].steps[0].number) / 1e9
    zero_s = first_s - costs.begin_s - costs.step_s
    lost = sum(max(restart.lost_steps.values(), default=0) for restart in restarts)
    finish_s = trial.history.time_ns(max(ended)) / 1e9 - zero_s
    measured = Course(len(attempts), lost, finish_s, question.work_s / finish_s)
    return predicted(question, [_steps_done(attempt) for attempt in attempts[:-1]]), measured


def _steps_done(attempt: Attempt) -> int:
    done = Counter(step.rank for step in attempt.steps)
    return max(done.values(), default=0)


def predicted(question: Question, struck: Sequence[int]) -> Course:
    """Give what the model makes of a job whose attempts are struck after so many steps each.

    Nodes are at hand. A rank that stands at a place of a plan is held until
    what came before is committed, so the model waits for that as well.
    """
    costs, every = question.costs, question.job.checkpoint_every_steps
    assert costs is not None
    asked = changed(
        question, {"job.min_nodes": None, "settings.max_failures": -1, "job.spare_nodes": 0}
    )
    nodes = np.array([asked.job.nodes])
    runs = Runs(asked, nodes, _FOR_EVER_S)
    for steps in struck:
        saved_s = steps // every * (question.interval_s + costs.save_s)
        committed_s = saved_s + (costs.upload_s if saved_s else 0.0)
        trained_s = max(saved_s + steps % every * costs.step_s, committed_s)
        now = runs.ready_s + trained_s
        runs.train_until(now, nodes)
        runs.meet(now, nodes, nodes, np.array([1]), _LUCK)
    runs.train_until(np.array([_FOR_EVER_S]), nodes)
    end_s = float(runs.end_s[0])
    lost = float(runs.lost_s[0]) / costs.step_s
    return Course(1 + int(runs.restarts[0]), lost, end_s, question.work_s / end_s)
