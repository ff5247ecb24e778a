"""Which settings are wrong, in the order of what they cost; and what is not the lever.

Each proposal is simulated with the same draws as the question itself, so that
a difference is the setting's and not the luck's.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.preflight.change import changed
from chaos.preflight.curve import Curve, Simulate
from chaos.preflight.forecast import costs_of, goodput, met_goals
from chaos.preflight.question import Question
from chaos.preflight.simulate import Outcomes
from chaos.preflight.words import in_s
from chaos.words import plural

LEVER = 0.5  # how much smaller a cost is made, to see whether it is the lever
_SHORT = 0.001
_DEARER = 0.005
ENOUGH = 0.999
SLACK = 1.2  # on the retries that were needed, because a market may be worse than its fit
BUDGETS = ("settings.max_failures", "settings.max_preemption_failures")
SPARES = "job.spare_nodes"
RUNGS_MAX = 6
_LIMITS = set(BUDGETS)


@dataclass(frozen=True)
class Gain:
    """A difference of means over the same runs, with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def is_seen(self) -> bool:
        """Whether the interval is on one side of nothing."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Advice:
    """One change of values, and what it buys.

    `chance`: of meeting every goal. `cost` is the price as a share of
    on-demand: below 0 it is cheaper; None where no run did any work with and
    without the change.
    """

    what: str
    values: dict[str, Any]
    chance: Gain
    goodput: Gain
    cost: Gain | None

    @property
    def is_worth_it(self) -> bool:
        """Whether it surely buys something: a goal, or goodput without losing a goal."""
        return self.chance.low > _SHORT or (self.goodput.low > _SHORT and self.chance.high >= 0)

    @property
    def is_dearer(self) -> bool:
        """Whether the training costs more with it."""
        return self.cost is not None and self.cost.value > _DEARER


@dataclass(frozen=True)
class Counsel:
    """Proposals for settings, best first; levers say what halving a cost would buy.

    `spares` are all numbers of spare nodes that were tried, of which the best
    is among `settings`.
    """

    settings: tuple[Advice, ...]
    levers: tuple[Advice, ...]
    spares: tuple[Advice, ...] = ()

    @property
    def stages(self) -> tuple[dict[str, Any], ...]:
        """What is worth it, together, without budgets: nothing, what costs no more, all of it."""
        worth = [one for one in self.settings if one.is_worth_it and not set(one.values) & _LIMITS]
        free = _together([one for one in worth if not one.is_dearer])
        return ({}, free, _together(worth))


def _together(advice: Sequence[Advice]) -> dict[str, Any]:
    """Join changes; where two set the same value, the better one's stands."""
    values: dict[str, Any] = {}
    for one in advice:
        values = {**one.values, **values}
    return values


def counsel(question: Question, curve: Curve, simulate: Simulate) -> Counsel:
    """Try what could be better, each by itself, on the same draws.

    Where retries run out nothing else can be seen, so all but the budgets
    themselves are judged with retries without limit.
    """
    free = changed(question, dict.fromkeys(BUDGETS, -1))
    (free_base,) = simulate([free])
    budgets = [
        (f"{place.partition('.')[2]} {value}", {place: value})
        for place, value in enough_retries(question, free_base).items()
    ]
    spares = [(_so_many(question, count), {SPARES: count}) for count in ladder(question)]
    proposals, levers = list(_proposals(question, curve)), list(_levers(question))
    rows = [(question, *row) for row in budgets]
    rows += [(free, *row) for row in (*spares, *proposals, *levers)]
    base, *others = simulate([question, *(changed(asked, values) for asked, _, values in rows)])
    tried = [
        _advice(row[0], base if row[0] is question else free_base, *row[1:], outcomes)
        for row, outcomes in zip(rows, others, strict=True)
    ]
    rungs = [one for one in tried if set(one.values) == {SPARES}]
    best = sorted(rungs, key=_value_of_spares)[:1]
    count = len(tried) - len(levers)
    settings = [*best, *(one for one in tried[:count] if one not in rungs)]
    levers_tried = sorted(tried[count:], key=_worth)
    return Counsel(tuple(sorted(settings, key=_worth)), tuple(levers_tried), tuple(rungs))


def ladder(question: Question) -> tuple[int, ...]:
    """Give the numbers of spare nodes to try: 1, 2, 4 … to a quarter of the job's, and none.

    More than six are thinned out, the largest kept. Where no node is ever
    waited for, spares cost and do nothing: then none at all is tried.
    """
    job, rungs = question.job, [1]
    while question.market.makes_wait and 2 * rungs[-1] <= max(2, job.nodes // 4):
        rungs.append(2 * rungs[-1])
    while len(rungs) > RUNGS_MAX:
        rungs = rungs[::-2][::-1]
    counts = (0, *rungs) if question.market.makes_wait else (0,)
    return tuple(count for count in counts if count != job.spare_nodes)


def _so_many(question: Question, spares: int) -> str:
    return f"{plural(spares, 'spare node')} instead of {question.job.spare_nodes}"


def _value_of_spares(advice: Advice) -> tuple[float, float]:
    """Order by the goals met; among equals the cheapest first, as spares are paid for."""
    return -round(advice.chance.value, 2), math.inf if advice.cost is None else advice.cost.value


def _worth(advice: Advice) -> tuple[float, float]:
    return -round(advice.chance.value, 3), -advice.goodput.value


def _advice(
    question: Question, base: Outcomes, what: str, values: Mapping[str, Any], outcomes: Outcomes
) -> Advice:
    """Set a changed question's outcomes against what it comes to as it is."""
    other = changed(question, values)
    price, price_other = costs_of(question, base), costs_of(other, outcomes)
    finite = np.isfinite(price) & np.isfinite(price_other)
    return Advice(
        what,
        dict(values),
        _gain(_all_met(other, outcomes) - _all_met(question, base)),
        _gain(goodput(outcomes) - goodput(base)),
        _gain(price_other[finite] - price[finite]) if finite.any() else None,
    )


def _all_met(question: Question, outcomes: Outcomes) -> np.ndarray:
    met = np.ones(len(outcomes), dtype=bool)
    for one in met_goals(question, outcomes).values():
        met &= one
    return met.astype(float)


def _gain(differences: np.ndarray) -> Gain:
    mean = float(differences.mean())
    half = 1.96 * float(differences.std()) / math.sqrt(len(differences))
    return Gain(mean, mean - half, mean + half)


def enough_retries(question: Question, unlimited: Outcomes) -> dict[str, Any]:
    """Give the budgets that last in 999 of 1000 runs, where those that are set do not."""
    settings, values = question.settings, {}
    for name, limit, used in (
        ("max_failures", settings.max_failures, unlimited.failures),
        ("max_preemption_failures", settings.max_preemption_failures, unlimited.preemptions),
    ):
        needed = math.ceil(float(np.quantile(used, ENOUGH)))
        if 0 <= limit < needed:
            values[f"settings.{name}"] = math.ceil(SLACK * needed) + 1
    return values


def _proposals(question: Question, curve: Curve) -> Iterator[tuple[str, dict[str, Any]]]:
    job, notice = question.job, question.market.notice
    assert question.costs is not None
    here = next(p for p in curve.points if p.steps == job.checkpoint_every_steps)
    if curve.best.simulated - here.simulated > _SHORT:
        text = f"a checkpoint every {curve.best_steps} steps instead of {here.steps}"
        yield text, {"job.checkpoint_every_steps": curve.best_steps}
    if question.settings.checkpoint_upload_mode == "sync" and question.costs.upload_s:
        beside = {"settings.checkpoint_upload_mode": "async"}
        yield "upload beside training (async)", kept_up(question, beside)
    if notice.seconds:
        yield from _of_notices(question)
    if question.market.makes_wait and job.min_nodes is None and job.nodes > 1:
        least = max(1, math.ceil(0.75 * job.nodes))
        if least < job.nodes:
            yield f"elastic: go on with {least} to {job.nodes} nodes", {"job.min_nodes": least}


def _of_notices(question: Question) -> Iterator[tuple[str, dict[str, Any]]]:
    settings, costs = question.settings, question.costs
    assert costs is not None
    watch = {} if settings.preemption_watcher else {"settings.preemption_watcher": True}
    if not question.job.saves_on_notice:
        yield "save on notice", {**watch, "job.saves_on_notice": True}
    need_s = settings.preemption_poll_s + costs.step_s + costs.save_s + costs.upload_s
    short_s = need_s - question.market.notice.seconds
    is_relaxed = settings.relax_collectives_on_preemption
    if short_s > 0 and (settings.preemption_grace_s < short_s or not is_relaxed):
        grace_s = float(math.ceil(short_s))
        text = f"save on notice, with preemption_grace_s {grace_s:g} and relaxed collectives"
        yield (
            text,
            {
                **watch,
                "job.saves_on_notice": True,
                "settings.preemption_grace_s": grace_s,
                "settings.relax_collectives_on_preemption": True,
            },
        )


def kept_up(question: Question, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes with an interval at which uploads keep up, where theirs is too short."""
    other = changed(question, values)
    if other.job.checkpoint_every_steps >= other.shortest_steps:
        return dict(values)
    return {**values, "job.checkpoint_every_steps": other.shortest_steps}


def _levers(question: Question) -> Iterator[tuple[str, dict[str, Any]]]:
    costs = question.costs
    assert costs is not None
    names = ("detect_s", "teardown_s", "schedule_s", "start_s", "restore_s")
    halved = {f"costs.{name}": getattr(costs, name) * LEVER for name in names}
    yield f"half the restart ({in_s(costs.restart_s)} → {in_s(costs.restart_s / 2)})", halved
    if costs.save_s:
        text = f"half the save ({in_s(costs.save_s)} → {in_s(costs.save_s * LEVER)})"
        yield text, {"costs.save_s": costs.save_s * LEVER}
    if costs.upload_s:
        text = f"half the upload ({in_s(costs.upload_s)} → {in_s(costs.upload_s * LEVER)})"
        yield text, {"costs.upload_s": costs.upload_s * LEVER}
    if question.market.away_h:
        text = f"replacements in half the time ({question.market.away_h * 60:.0f} min now)"
        yield text, {"market.away_h": question.market.away_h * LEVER}
