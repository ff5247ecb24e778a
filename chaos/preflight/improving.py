"""What is worth changing, set together: the fewest and cheapest changes that meet every goal."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from chaos.preflight.advice import BUDGETS, SPARES, Counsel, enough_retries, kept_up
from chaos.preflight.change import changed
from chaos.preflight.curve import Curve
from chaos.preflight.effort import Effort
from chaos.preflight.forecast import Forecast, costs_of, forecast
from chaos.preflight.market import at_worst
from chaos.preflight.question import Question
from chaos.preflight.simulate import Outcomes
from chaos.preflight.verdict import reaches, why_impossible

Changes: TypeAlias = dict[str, Any]
Improved: TypeAlias = tuple[Changes, Forecast | None]
INTERVAL = "job.checkpoint_every_steps"
_A_CHANGE = 0.002  # of on-demand: what one change less may cost
_LIKELY = 3  # sets of changes that are tried in full
_INF = float("inf")


def improved(question: Question, effort: Effort, advised: Counsel, curve: Curve) -> Improved:
    """Give the changes that meet every goal, as few and cheap as were found, and what they give.

    Stages of what is worth it are tried first; where none meets the goals, what is
    worth it with each other number of spare nodes as well: each by itself may help while
    all together cost too much. What meets the goals is then made smaller.
    """
    sets = [kept_up(question, stage) for stage in advised.stages]
    sets += [mix for mix in _mixes(question, advised) if mix not in sets]
    few = [(values, forecast(*seen)) for values, seen in _tried(question, sets, effort)]
    likely = [values for values, seen in few if _may_meet(question, seen)]
    nearest = max(few, key=_nearness)[0]  # of equals the first, which changes least
    tried: list[Improved] = []
    for values in (*likely[:_LIKELY], nearest):
        if values not in [stage for stage, _ in tried]:
            tried.append((values, None))
            found = _with_retries(question, values, effort)
            if _meets(question, found):
                return _smaller(question, values, found, effort, curve)
            tried[-1] = found
    return max(tried, key=_nearness)


def _may_meet(question: Question, seen: Forecast) -> bool:
    """Whether few runs, with retries without limit, leave it open that every goal is met."""
    return all(chance.high >= question.goal.confidence for chance in seen.meets.values())


def _meets(question: Question, one: Improved) -> bool:
    return one[1] is not None and reaches(one[1], question.goal.confidence)


def _nearness(one: Improved) -> tuple[float, ...]:
    """Give how near it comes to the goals; where none is ever met, by its goodput."""
    if one[1] is None:
        return (-1.0,)
    shares = [chance.share for chance in one[1].meets.values()]
    return min(shares), sum(shares), one[1].mean_goodput


def _with_retries(question: Question, stage: Changes, effort: Effort) -> Improved:
    """Give a stage with the retries that the changed job needs, and what that comes to.

    They are set last, because how many it needs depends on how long the rest
    makes it run; and to what it needs where the market is as bad as its trace allows.
    """
    staged = changed(question, stage)
    worst = at_worst(question.market)
    hard = staged if worst is None else changed(staged, {"market": worst.model_dump(mode="json")})
    (unlimited,) = effort.try_each([_free(hard)])
    values = stage | enough_retries(staged, unlimited)
    if not values:
        return {}, None
    other = changed(question, values)
    return values, forecast(other, effort.simulate(other))


def _free(question: Question) -> Question:
    return changed(question, dict.fromkeys(BUDGETS, -1))


def _tried(
    question: Question, sets: Sequence[Changes], effort: Effort
) -> list[tuple[Changes, tuple[Question, Outcomes]]]:
    """Try sets of changes with few runs each, retries without limit."""
    asked = [_free(changed(question, values)) for values in sets]
    return list(zip(sets, zip(asked, effort.try_each(asked), strict=True), strict=True))


def _mixes(question: Question, advised: Counsel) -> Iterator[Changes]:
    """Give what is worth it, elastic and not, with each number of spares that could be paid for."""
    every = advised.stages[-1]
    for left_out in ({SPARES}, {SPARES, "job.min_nodes"}):
        kept = {place: value for place, value in every.items() if place not in left_out}
        if len(left_out) > 1 and "job.min_nodes" not in every:
            return
        for rung in ({}, *(one.values for one in advised.spares)):
            mix = kept_up(question, {**kept, **rung})
            if mix not in advised.stages and why_impossible(changed(question, mix)) is None:
                yield mix


def _smaller(
    question: Question, stage: Changes, found: Improved, effort: Effort, curve: Curve
) -> Improved:
    """Drop or halve each change, and move the interval, while the goals hold and it costs no more.

    An interval that is best by itself is too short once a job saves on notice, and spares that
    are best by themselves are too many once it is elastic. The first set stays where all runs
    do not bear out what few have shown.
    """
    moves = [] if not stage else [*_simpler(question, stage, curve)]
    if not moves:
        return found
    (price, _), *singles = _priced(question, [stage, *moves], effort)
    better = [values for cost, values in sorted(singles, key=lambda one: one[0]) if cost < price]
    if not better:
        return found
    joined = [better[0], *(_joined(stage, better[:n]) for n in range(2, len(better) + 1))]
    different = [values for n, values in enumerate(joined) if values not in joined[:n]]
    sets = [kept_up(question, values) for values in different]
    _, best = min(_priced(question, sets, effort), key=lambda one: one[0])
    again = _with_retries(question, best, effort)
    return again if _meets(question, again) or again == ({}, None) else found


def _priced(
    question: Question, sets: Sequence[Changes], effort: Effort
) -> list[tuple[float, Changes]]:
    """Give sets of changes with their prices, each change added to them."""
    return [
        (_price(question, *seen) + _A_CHANGE * len(values), values)
        for values, seen in _tried(question, sets, effort)
    ]


def _joined(stage: Changes, moves: Sequence[Changes]) -> Changes:
    """Give what several sets do to a stage together; of two that differ in a place the first."""
    values = dict(stage)
    for move in moves:
        for place in {**stage, **move}:
            now, then = stage.get(place), move.get(place)
            if then != now and values.get(place) == now:
                values[place] = then
    return {place: value for place, value in values.items() if value is not None}


def _price(question: Question, asked: Question, outcomes: Outcomes) -> float:
    """Give a run's mean price, as a share of on-demand; infinite where a goal may be missed."""
    seen = forecast(asked, outcomes)
    if any(chance.share < question.goal.confidence for chance in seen.meets.values()):
        return _INF
    costs = costs_of(asked, outcomes)
    return float(costs[np.isfinite(costs)].mean())


def _simpler(question: Question, values: Changes, curve: Curve) -> Iterator[Changes]:
    """Give sets with one change less, fewer spares, or another interval."""
    for place in values:
        yield kept_up(question, {one: value for one, value in values.items() if one != place})
    spares, now = values.get(SPARES, 0), question.job.spare_nodes
    if spares > now + 1:
        yield {**values, SPARES: max(now, spares // 2)}
        yield {**values, SPARES: spares - 1}
    if INTERVAL in values:
        least = changed(question, values).shortest_steps
        for point in curve.points:
            if point.steps >= least and point.steps not in (
                values[INTERVAL],
                question.job.checkpoint_every_steps,
            ):
                yield {**values, INTERVAL: point.steps}
