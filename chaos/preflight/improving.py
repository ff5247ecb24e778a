"""What is worth changing, set together: the first set of changes that meets every goal."""

from collections.abc import Iterator
from typing import Any, TypeAlias

from chaos.preflight.advice import BUDGETS, SPARES, Counsel, enough_retries
from chaos.preflight.change import changed
from chaos.preflight.effort import Effort
from chaos.preflight.forecast import Forecast, forecast
from chaos.preflight.market import at_worst
from chaos.preflight.question import Question
from chaos.preflight.verdict import reaches, why_impossible

Improved: TypeAlias = tuple[dict[str, Any], Forecast | None]


def improved(question: Question, effort: Effort, advised: Counsel) -> Improved:
    """Give the first stage of changes that meets every goal, else the best, and what it gives.

    Where no stage does, what is worth it is tried with each other number of
    spare nodes as well: each by itself may help while all together cost too much.
    """
    tried: list[Improved] = []
    for stage in advised.stages:
        tried.append(_with_retries(question, stage, effort))
        if _meets(question, tried[-1]):
            return tried[-1]
    tried += [_with_retries(question, mix, effort) for mix in _best_mix(question, advised, effort)]
    return max(tried, key=_nearness)  # of equals the first, which changes least


def _meets(question: Question, one: Improved) -> bool:
    return one[1] is not None and reaches(one[1], question.goal.confidence)


def _nearness(one: Improved) -> tuple[float, ...]:
    """Give how near it comes to the goals; where none is ever met, by its goodput."""
    if one[1] is None:
        return (-1.0,)
    shares = [chance.share for chance in one[1].meets.values()]
    return min(shares), sum(shares), one[1].mean_goodput


def _with_retries(question: Question, stage: dict[str, Any], effort: Effort) -> Improved:
    """Give a stage with the retries that the changed job needs, and what that comes to.

    They are set last, because how many it needs depends on how long the rest
    makes it run; and to what it needs where the market is as bad as its trace allows.
    """
    staged = changed(question, stage)
    worst = at_worst(question.market)
    hard = staged if worst is None else changed(staged, {"market": worst.model_dump(mode="json")})
    unlimited = effort.simulate(changed(hard, dict.fromkeys(BUDGETS, -1)))
    values = stage | enough_retries(staged, unlimited)
    if not values:
        return {}, None
    other = changed(question, values)
    return values, forecast(other, effort.simulate(other))


def _best_mix(question: Question, advised: Counsel, effort: Effort) -> tuple[dict[str, Any], ...]:
    """Give the mix of changes that comes nearest to the goals, retries without limit."""
    mixes = [*_mixes(question, advised)]
    if not mixes:
        return ()
    asked = [changed(question, mix | dict.fromkeys(BUDGETS, -1)) for mix in mixes]
    seen = [forecast(*pair) for pair in zip(asked, effort.try_each(asked), strict=True)]
    ranks = [_nearness((mix, one)) for mix, one in zip(mixes, seen, strict=True)]
    return (mixes[ranks.index(max(ranks))],)


def _mixes(question: Question, advised: Counsel) -> Iterator[dict[str, Any]]:
    """Give what is worth it, elastic and not, with each number of spares that could be paid for."""
    every = advised.stages[-1]
    for left_out in ({SPARES}, {SPARES, "job.min_nodes"}):
        kept = {place: value for place, value in every.items() if place not in left_out}
        if len(left_out) > 1 and "job.min_nodes" not in every:
            return
        for rung in ({}, *(one.values for one in advised.spares)):
            mix = {**kept, **rung}
            if mix not in advised.stages and why_impossible(changed(question, mix)) is None:
                yield mix
