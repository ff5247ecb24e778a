"""Conditions under which a no-go would be a go: one at a time, by the simulation."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from chaos.extensions.preflight.estimate import format_hours, format_price_share, format_seconds
from chaos.extensions.preflight.forecast import Effort, Forecast, lossless_s, met_goals
from chaos.extensions.preflight.market import speed_up_losses
from chaos.extensions.preflight.question import PARTS, Question, change_question, remove_limits
from chaos.extensions.preflight.start_limit import plan_lossless_course
from chaos.extensions.preflight.verdict import missed_goals
from chaos.wording import plural

FACTORS = tuple(2**n for n in range(1, 9))
#: of the time that a training takes without any loss: limits of a start that are tried
_LIMIT_FACTORS = (1.0, 1.05, 1.1, 1.25, 1.5, 2.0, 4.0, 8.0)
# A condition in words, and its values of the question.
Condition: TypeAlias = tuple[str, Mapping[str, Any]]


def describe_go_conditions(
    question: Question, changes: Mapping[str, Any], final_forecast: Forecast, effort: Effort
) -> str:
    """Return in a sentence the things of which each alone would make a no-go a go.

    `changes` are the best that were tried, and `final_forecast` is the forecast with them. Retries
    are without limit, as in all advice.
    """
    changed_question = change_question(question, changes)
    unlimited_question = remove_limits(changed_question)
    conditions, ladders = (
        [*_relax_goals(question, final_forecast)],
        [ladder for ladder in _build_ladders(unlimited_question) if ladder],
    )
    for ladder in ladders:
        # Each step is better than the one before, so the first that suffices is found by halves.
        index = bisect_left(ladder, True, key=partial(_suffices, unlimited_question, effort))
        conditions += [text for text, _ in ladder[index : index + 1]]
    prefix = "beside the changes below " if changes else ""
    if conditions:
        return f"{prefix}it would take {', or '.join(conditions)}"
    ends = ", ".join(ladder[-1][0] for ladder in ladders)
    return f"{prefix}not even one of these would suffice: {ends}"


def _suffices(question: Question, effort: Effort, condition: Condition) -> bool:
    """Return whether enough of a few runs meet every goal."""
    changed_question = change_question(question, condition[1])
    (outcomes,) = effort.try_each([changed_question])
    met = met_goals(changed_question, outcomes).values()
    return all(float(flags.mean()) >= changed_question.goal.confidence for flags in met)


def _relax_goals(question: Question, final_forecast: Forecast) -> Iterator[str]:
    """Yield the goals that would be met in place of those missed; none if a job cannot finish."""
    missed = missed_goals(final_forecast, question.goal.confidence)
    borders = {name: final_forecast.borders.get(name, math.inf) for name in missed}
    if missed and all(0 < value < math.inf for value in borders.values()):
        yield " and ".join(_describe_border(*border) for border in borders.items())


def _describe_border(name: str, value: float) -> str:
    if name == "deadline":
        return f"a deadline of {format_hours(value)}"
    return (
        f"a budget of {format_price_share(value)}"
        if name == "budget"
        else f"a goodput of {value:.1%}"
    )


def _build_ladders(question: Question) -> Iterator[Sequence[Condition]]:
    """Yield conditions in ladders, from the nearest to the furthest."""
    market, costs, job = question.market, question.required_costs, question.job
    yield from _build_start_limit_ladders(question)
    if market.lifetime is not None:
        yield [_reduce_losses(question, factor) for factor in FACTORS]
    if market.away_h and not market.is_shared:
        hours = [market.away_h / factor for factor in FACTORS]
        yield [(f"lost nodes back after {format_hours(h)}", {"market.away_h": h}) for h in hours]
    min_nodes = job.min_nodes or job.nodes
    if market.makes_wait and min_nodes > 1:
        node_counts = sorted({max(1, min_nodes // factor) for factor in FACTORS}, reverse=True)
        name = "job.min_nodes"
        yield [
            (f"a job that goes on with {n} of {job.nodes} nodes", {name: n}) for n in node_counts
        ]
    parts = {f"costs.{part}": getattr(costs, part) for part in PARTS}
    if costs.restart_s:
        yield [
            (
                f"a restart in {format_seconds(costs.restart_s / factor)}",
                {key: seconds / factor for key, seconds in parts.items()},
            )
            for factor in FACTORS
        ]


def _reduce_losses(question: Question, factor: int) -> Condition:
    market = speed_up_losses(question.market, 1 / factor)
    text = f"nodes lost {factor} times as rarely, once in {format_hours(market.mtbf_h)}"
    return text, {"market": market.model_dump(mode="json")}


def _build_start_limit_ladders(question: Question) -> Iterator[Sequence[Condition]]:
    """Yield longer time limits of a start, and more starts."""
    settings = question.settings
    if math.isinf(settings.start_limit_s) or settings.limit_requeues < 0:
        return
    whole = change_question(question, {"settings.start_limit_h": None})
    needs_h = lossless_s(whole) / 3600
    hours = sorted({math.ceil(factor * needs_h) for factor in _LIMIT_FACTORS})
    yield [_set_limit(h) for h in hours if h * 3600 > settings.start_limit_s]
    course = plan_lossless_course(question)
    if course is not None:
        extra_starts = (0, 1, *FACTORS)
        counts = [course.starts - 1 + extra for extra in extra_starts]
        yield [_set_requeues(n) for n in counts if n > settings.limit_requeues]


def _set_limit(hours: int) -> Condition:
    text = f"a time limit of {hours} h for each start (--time={hours}:00:00)"
    return text, {"settings.start_limit_h": float(hours)}


def _set_requeues(count: int) -> Condition:
    text = (
        f"to be queued again at the time limit {plural(count, 'time')}, {count + 1} starts in all "
        f"(settings.limit_requeues={count})"
    )
    return text, {"settings.limit_requeues": count}
