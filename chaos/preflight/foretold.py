"""What the model foretells of many short runs on a market, and how it compares.

It is told the job's costs, measured in other runs, and the market; not when
any of the runs was struck.
"""

from collections.abc import Sequence

import numpy as np

from chaos.preflight.capacity import Floats
from chaos.preflight.change import changed
from chaos.preflight.comparison import Comparison
from chaos.preflight.course import FIGURES, Course
from chaos.preflight.estimate import Estimate, mean_of
from chaos.preflight.forecast import goodput
from chaos.preflight.market import Market
from chaos.preflight.question import Question
from chaos.preflight.simulate import Outcomes, simulate

RUNS = 1_000  # for each set of costs
_HORIZON = 200  # times the work


def asked_of(question: Question, market: Market, *, pool: int) -> Question:
    """Give the question that the runs pose: no goal, retries for ever, this market.

    Their saves were timed around `report()`, whatever it did: what follows is behind training.
    """
    values = {
        "settings.checkpoint_upload_mode": "async",
        "market": market.model_dump(mode="json"),
        "goal": {},
        "job.spare_nodes": pool - question.job.nodes,
        "settings.max_failures": -1,
        "settings.max_preemption_failures": -1,
    }
    return changed(question, values)


def compared(
    questions: Sequence[Question],
    courses: Sequence[Course],
    *,
    seed: int,
    spares_starts: bool = True,
) -> tuple[Comparison, ...]:
    """Compare the means of `courses` with what the model says that such means will be.

    `questions` differ in their costs alone, each resampled from the runs that
    measured them, so that the intervals hold both the luck of losses and how
    sure the costs are. With `spares_starts` no loss took a worker before its first step.
    """
    drawn = [
        _figures(question, seed + n, spares_starts=spares_starts)
        for n, question in enumerate(questions)
    ]
    return tuple(
        _compared(name, unit, [one[field] for one in drawn], [getattr(c, field) for c in courses])
        for name, unit, field in FIGURES
    )


def _figures(question: Question, seed: int, *, spares_starts: bool) -> dict[str, Floats]:
    seen = simulate(
        question,
        runs=RUNS,
        seed=seed,
        horizon_s=_HORIZON * question.work_s,
        jobs=1,
        spares_starts=spares_starts,
    )
    return _of(seen)


def _of(seen: Outcomes) -> dict[str, Floats]:
    return {
        "attempts": 1 + seen.restarts,
        "lost_steps": seen.lost_steps,
        "finish_s": seen.end_s,
        "goodput": goodput(seen),
    }


def _compared(name: str, unit: str, drawn: Sequence[Floats], values: Sequence[float]) -> Comparison:
    count, all_runs = len(values), np.concatenate(drawn)
    groups = [one[: len(one) // count * count].reshape(-1, count).mean(axis=1) for one in drawn]
    low, high = np.quantile(np.concatenate(groups), [0.025, 0.975])
    least, most = np.quantile(all_runs, [0.05, 0.95], method="inverted_cdf")
    inside = sum(bool(least <= value <= most) for value in values) / count
    predicted = Estimate(float(all_runs.mean()), float(low), float(high))
    return Comparison(name, unit, count, predicted, mean_of(values), inside)
