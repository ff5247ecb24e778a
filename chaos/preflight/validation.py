"""The model held against recorded runs: told only where they were struck, what does it predict?"""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from chaos.check.attempt import Attempt
from chaos.check.trial import Trial
from chaos.errors import UsageError
from chaos.preflight.change import changed
from chaos.preflight.comparison import Comparison, Validation
from chaos.preflight.course import FIGURES, Course
from chaos.preflight.estimate import Estimate, mean_of
from chaos.preflight.question import Question
from chaos.preflight.runs import Runs, packed_luck

_LUCK = np.array([packed_luck(0.0, 1.0, 0.0, 1.0)], dtype=np.uint64)  # hit, and not told
_FOR_EVER_S = 1e12


def validated(question: Question, trials: Sequence[Trial]) -> Validation:
    """Compare predicted and measured attempts, lost steps, finish times and goodput.

    `question` holds the costs and the length of the job that was recorded.
    Runs count that were struck without notice and came to their end; raises
    `UsageError` where there is none.
    """
    pairs = [pair for trial in trials if (pair := _pair(question, trial)) is not None]
    if not pairs:
        raise UsageError("no recorded run was struck without notice and finished")
    rows = tuple(
        _row(name, unit, [(getattr(p, field), getattr(m, field)) for p, m in pairs])
        for name, unit, field in FIGURES
    )
    return Validation(f"{len(pairs)} recorded runs, told after which steps each was struck", rows)


def _row(name: str, unit: str, pairs: Sequence[tuple[float, float]]) -> Comparison:
    """Compare in pairs: the prediction's interval is as wide as its errors scatter."""
    error = mean_of([measured - predicted for predicted, measured in pairs])
    value = fmean(predicted for predicted, _ in pairs)
    low, high = value + error.low - error.value, value + error.high - error.value
    measured = mean_of([measured for _, measured in pairs])
    return Comparison(name, unit, len(pairs), Estimate(value, low, high), measured)


def _pair(question: Question, trial: Trial) -> tuple[Course, Course] | None:
    attempts, restarts, costs = trial.run.attempts, trial.restarts, question.costs
    assert costs is not None
    ended = [commit.number for attempt in attempts for commit in attempt.commits]
    is_whole = trial.run.ending.is_finished and restarts and ended and attempts[0].steps
    if not is_whole or any(strike.is_preemption for strike in trial.strikes):
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
    runs = Runs([asked], nodes, [_FOR_EVER_S])
    for steps in struck:
        saved_s = steps // every * (question.interval_s + question.stop_s)
        committed_s = saved_s + (question.behind_s if saved_s else 0.0)
        trained_s = max(saved_s + steps % every * costs.step_s, committed_s)
        runs.pass_to(runs.ready_s + trained_s)
        runs.meet(nodes, np.array([1]), _LUCK, None)
    runs.pass_to(np.array([_FOR_EVER_S]))
    end_s = float(runs.end_s[0])
    lost = float(runs.lost_steps[0])
    return Course(1 + int(runs.restarts[0]), lost, end_s, question.work_s / end_s)
