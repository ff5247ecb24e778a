"""Conditions under which a no-go would be a go: one at a time, by the simulation."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from chaos.preflight.estimate import in_hours, in_s, in_shares
from chaos.preflight.forecast import Effort, Forecast, met_goals
from chaos.preflight.market import faster
from chaos.preflight.question import PARTS, Question, changed, without_limits
from chaos.preflight.verdict import missed_goals

FACTORS = tuple(2**n for n in range(1, 9))
# A condition in words, and its values of the question.
Condition: TypeAlias = tuple[str, Mapping[str, Any]]


def would_take(
    question: Question, changes: Mapping[str, Any], seen: Forecast, effort: Effort
) -> str:
    """Return in a sentence the things of which each alone would make a no-go a go.

    `changes` are the best that were tried, and `seen` is the forecast with them. Retries are
    without limit, as in all advice.
    """
    free = without_limits(changed(question, changes))
    found, tried = [*_other_goals(question, seen)], [*_ladders(free)]
    for ladder in tried:
        # Each step is better than the one before, so the first that suffices is found by halves.
        at = bisect_left(ladder, True, key=partial(_suffices, free, effort))
        found += [text for text, _ in ladder[at : at + 1]]
    beside = "beside the changes below " if changes else ""
    if found:
        return f"{beside}it would take {', or '.join(found)}"
    ends = ", ".join(ladder[-1][0] for ladder in tried)
    return f"{beside}not even one of these would suffice: {ends}"


def _suffices(question: Question, effort: Effort, condition: Condition) -> bool:
    """Return whether enough of a few runs meet every goal."""
    asked = changed(question, condition[1])
    (outcomes,) = effort.try_each([asked])
    met = met_goals(asked, outcomes).values()
    return all(float(one.mean()) >= asked.goal.confidence for one in met)


def _other_goals(question: Question, seen: Forecast) -> Iterator[str]:
    """Yield the goals that would be met in place of those missed; none if a job cannot finish."""
    missed = missed_goals(seen, question.goal.confidence)
    borders = {name: seen.borders.get(name, math.inf) for name in missed}
    if missed and all(0 < value < math.inf for value in borders.values()):
        yield " and ".join(_border(*one) for one in borders.items())


def _border(name: str, value: float) -> str:
    if name == "deadline":
        return f"a deadline of {in_hours(value)}"
    return f"a budget of {in_shares(value)}" if name == "budget" else f"a goodput of {value:.1%}"


def _ladders(question: Question) -> Iterator[Sequence[Condition]]:
    """Yield conditions in ladders, from the nearest to the furthest."""
    market, costs, job = question.market, question.known_costs, question.job
    if market.lifetime is not None:
        yield [_rarer(question, factor) for factor in FACTORS]
    if market.away_h and not market.is_shared:
        hours = [market.away_h / factor for factor in FACTORS]
        yield [(f"lost nodes back after {in_hours(h)}", {"market.away_h": h}) for h in hours]
    least = job.min_nodes or job.nodes
    if market.makes_wait and least > 1:
        fewer = sorted({max(1, least // factor) for factor in FACTORS}, reverse=True)
        name = "job.min_nodes"
        yield [(f"a job that goes on with {n} of {job.nodes} nodes", {name: n}) for n in fewer]
    parts = {f"costs.{part}": getattr(costs, part) for part in PARTS}
    if costs.restart_s:
        yield [
            (
                f"a restart in {in_s(costs.restart_s / factor)}",
                {place: seconds / factor for place, seconds in parts.items()},
            )
            for factor in FACTORS
        ]


def _rarer(question: Question, factor: int) -> Condition:
    market = faster(question.market, 1 / factor)
    text = f"nodes lost {factor} times as rarely, once in {in_hours(market.mtbf_h)}"
    return text, {"market": market.model_dump(mode="json")}
