"""Changes of settings, the gain of each, and the fewest that together meet every goal."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from chaos.preflight.capacity import Flags, Floats
from chaos.preflight.estimate import Estimate, in_s, mean_of_runs
from chaos.preflight.forecast import (
    Effort,
    Forecast,
    Outcomes,
    charged_budgets,
    costs_of,
    forecast,
    goodput,
    met_goals,
)
from chaos.preflight.intervals import Curve, Simulate
from chaos.preflight.market import at_worst
from chaos.preflight.question import BUDGETS, PARTS, Question, changed, without_limits
from chaos.preflight.settings import RaySettings
from chaos.preflight.verdict import missed_goals, reaches, why_impossible
from chaos.words import plural

LEVER = 0.5  # the factor on a cost, to see whether it is a lever
# Of a chance, or of goodput: a gain below it is not worth a change.
_SHORT = 0.001
# Of the price as a share of on-demand: less is no difference that is worth a word.
_DEARER = 0.005
# The share of runs for which retries that are advised must suffice.
ENOUGH = 0.999
SLACK = 1.2  # the factor on the retries that were needed: a market may be worse than its fit
SPARES = "job.spare_nodes"
# Numbers of spare nodes that are tried; each is a simulation, alone and with other changes.
RUNGS_MAX = 6


@dataclass(frozen=True)
class Advice:
    """One change of values, and the differences of means that it makes over the same runs."""

    what: str
    values: dict[str, Any]
    #: of meeting every goal
    chance: Estimate
    goodput: Estimate
    #: of the price as a share of on-demand, below 0 if it is cheaper; None if no run did any work
    #: both with and without the change
    cost: Estimate | None

    @property
    def is_worth_it(self) -> bool:
        """Whether it surely gains something: a goal, or goodput without losing a goal."""
        return self.chance.low > _SHORT or (self.goodput.low > _SHORT and self.chance.high >= 0)

    @property
    def is_sure(self) -> bool:
        """Whether it surely makes any difference."""
        gains = (self.chance, self.goodput, self.cost)
        return any(gain is not None and gain.excludes_zero for gain in gains)

    @property
    def is_dearer(self) -> bool:
        """Whether the training costs more with it."""
        return self.cost is not None and self.cost.value > _DEARER


@dataclass(frozen=True)
class Counsel:
    """Proposals for settings, best first."""

    settings: tuple[Advice, ...]
    #: the gains of halving a cost
    levers: tuple[Advice, ...]
    #: all numbers of spare nodes that were tried, of which the best is among `settings`
    spares: tuple[Advice, ...] = ()

    @property
    def stages(self) -> tuple[dict[str, Any], ...]:
        """Sets of the useful changes, without budgets: none, those that cost no more, all."""
        worth = [one for one in self.settings if one.is_worth_it and not set(one.values) & BUDGETS]
        free = _together([one for one in worth if not one.is_dearer])
        return ({}, free, _together(worth))


def _together(advice: Sequence[Advice]) -> dict[str, Any]:
    """Join changes; if two set the same value, that of the better one is used."""
    values: dict[str, Any] = {}
    for one in advice:
        values = {**one.values, **values}
    return values


def counsel(question: Question, curve: Curve, simulate: Simulate) -> Counsel:
    """Try each possible improvement by itself, on the same draws.

    If retries run out, no other effect can be seen. So all changes but the budgets
    themselves are judged with unlimited retries.
    """
    free = without_limits(question)
    (free_base,) = simulate([free])
    budgets = [
        (f"{place.partition('.')[2]} {value}", {place: value})
        for place, value in enough_retries(question, free_base).items()
    ]
    instead = f"instead of {question.job.spare_nodes}"
    rungs = ladder(question)
    spares = [(f"{plural(count, 'spare node')} {instead}", {SPARES: count}) for count in rungs]
    proposals, levers = list(_proposals(question, curve)), list(_levers(question))
    rows = [(question, *row) for row in budgets]
    rows += [(free, *row) for row in (*spares, *proposals, *levers)]
    base, *others = simulate([question, *(changed(asked, values) for asked, _, values in rows)])
    tried = [
        _advice(row[0], base if row[0] is question else free_base, *row[1:], outcomes)
        for row, outcomes in zip(rows, others, strict=True)
    ]
    of_spares = [one for one in tried if set(one.values) == {SPARES}]
    best = sorted(of_spares, key=_value_of_spares)[:1]
    count = len(tried) - len(levers)
    settings = [*best, *(one for one in tried[:count] if one not in of_spares)]
    levers_tried = sorted(tried[count:], key=_worth)
    return Counsel(tuple(sorted(settings, key=_worth)), tuple(levers_tried), tuple(of_spares))


def ladder(question: Question) -> tuple[int, ...]:
    """Return the numbers of spare nodes to try: 1, 2, 4 … to a quarter of the job's, and none.

    Of more than six, some are left out, but not the largest. If the job never waits
    for a node, spares cost without effect: then only none is tried.
    """
    job, rungs = question.job, [1]
    while question.market.makes_wait and 2 * rungs[-1] <= max(2, job.nodes // 4):
        rungs.append(2 * rungs[-1])
    while len(rungs) > RUNGS_MAX:
        rungs = rungs[::-2][::-1]
    counts = (0, *rungs) if question.market.makes_wait else (0,)
    return tuple(count for count in counts if count != job.spare_nodes)


def _value_of_spares(advice: Advice) -> tuple[float, float]:
    """Return a key by the chance of the goals; among equals, the cheapest is best."""
    # Rounded, as chances differ in the third digit by luck, and the dearer number of spares would
    # win by it.
    return -round(advice.chance.value, 2), math.inf if advice.cost is None else advice.cost.value


def _worth(advice: Advice) -> tuple[float, float]:
    return -round(advice.chance.value, 3), -advice.goodput.value


def _advice(
    question: Question, base: Outcomes, what: str, values: Mapping[str, Any], outcomes: Outcomes
) -> Advice:
    """Compare the outcomes of a changed question with those of the question as it is."""
    other = changed(question, values)
    # Run by run, both on the same losses: the spread of a difference is that of the change alone.
    price, price_other = costs_of(question, base), costs_of(other, outcomes)
    finite = np.isfinite(price) & np.isfinite(price_other)
    return Advice(
        what,
        dict(values),
        mean_of_runs(_all_met(other, outcomes) - _all_met(question, base)),
        mean_of_runs(goodput(outcomes) - goodput(base)),
        mean_of_runs(price_other[finite] - price[finite]) if finite.any() else None,
    )


def _all_met(question: Question, outcomes: Outcomes) -> Floats:
    met: Flags = np.all([*met_goals(question, outcomes).values()], axis=0)
    return met.astype(float)


def enough_retries(question: Question, unlimited: Outcomes) -> dict[str, Any]:
    """Return the budgets that suffice in 999 of 1000 runs, if those that are set do not."""
    values = {}
    for name, limit, used in charged_budgets(question, unlimited):
        needed = math.ceil(float(np.quantile(used, ENOUGH)))
        if 0 <= limit < needed:
            values[f"settings.{name}"] = math.ceil(SLACK * needed) + 1
    return values


def _proposals(question: Question, curve: Curve) -> Iterator[tuple[str, dict[str, Any]]]:
    job, notice = question.job, question.market.notice
    here = curve.at(job.checkpoint_every_steps)
    if curve.best.simulated - here.simulated > _SHORT:
        text = f"a checkpoint every {curve.best_steps} steps instead of {here.steps}"
        yield text, {"job.checkpoint_every_steps": curve.best_steps}
    mode = question.settings.uploads_beside
    if question.settings.checkpoint_upload_mode == "sync" and question.known_costs.upload_s:
        beside = {"settings.checkpoint_upload_mode": mode}
        yield f"upload beside training ({mode})", kept_up(question, beside)
    if notice.seconds and isinstance(question.settings, RaySettings):
        yield from _of_notices(question, question.settings)
    if question.market.makes_wait and job.min_nodes is None and job.nodes > 1:
        least = max(1, math.ceil(0.75 * job.nodes))
        if least < job.nodes:
            yield f"elastic: go on with {least} to {job.nodes} nodes", {"job.min_nodes": least}


def _of_notices(question: Question, settings: RaySettings) -> Iterator[tuple[str, dict[str, Any]]]:
    saves = {} if settings.preemption_watcher else {"settings.preemption_watcher": True}
    saves["job.saves_on_notice"] = True
    if not question.job.saves_on_notice:
        yield "save on notice", saves
    short_s = question.notice_save_s - question.market.notice.seconds
    is_relaxed = settings.relax_collectives_on_preemption
    if short_s > 0 and (settings.preemption_grace_s < short_s or not is_relaxed):
        grace_s = float(math.ceil(short_s))
        text = f"save on notice, with preemption_grace_s {grace_s:g} and relaxed collectives"
        yield (
            text,
            saves
            | {
                "settings.preemption_grace_s": grace_s,
                "settings.relax_collectives_on_preemption": True,
            },
        )


def kept_up(question: Question, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes with an interval at which uploads keep up, if theirs is too short."""
    other = changed(question, values)
    if other.job.checkpoint_every_steps >= other.shortest_steps:
        return dict(values)
    return {**values, "job.checkpoint_every_steps": other.shortest_steps}


def _levers(question: Question) -> Iterator[tuple[str, dict[str, Any]]]:
    costs = question.known_costs
    for name, now_s, parts in (
        ("restart", costs.restart_s, PARTS),
        ("save", costs.save_s, ("save_s",)),
        ("upload", costs.upload_s, ("upload_s",)),
    ):
        if now_s or name == "restart":
            halved = {f"costs.{part}": getattr(costs, part) * LEVER for part in parts}
            yield f"half the {name} ({in_s(now_s)} → {in_s(now_s * LEVER)})", halved
    if question.market.away_h and not question.market.is_shared:
        text = f"replacements in half the time ({question.market.away_h * 60:.0f} min now)"
        yield text, {"market.away_h": question.market.away_h * LEVER}


# -- changes set together -----------------------------------------------------------------------

Changes: TypeAlias = dict[str, Any]
Improved: TypeAlias = tuple[Changes, Forecast | None]
INTERVAL = "job.checkpoint_every_steps"
_A_CHANGE = 0.002  # share of the on-demand price that one change less may cost
_LIKELY = 3  # sets of changes that are tried with all runs


def improved(question: Question, effort: Effort, advised: Counsel, curve: Curve) -> Improved:
    """Return the fewest and cheapest changes found that meet every goal, and their outcomes.

    Stages of the useful changes are tried first. If none meets the goals, the useful changes
    are tried with each other number of spare nodes as well: each may help by itself while
    all together cost too much. A set that meets the goals is then made smaller.
    """
    sets = [kept_up(question, stage) for stage in advised.stages]
    sets += [mix for mix in _mixes(question, advised) if mix not in sets]
    forecasts = [forecast(*one) for one in _tried(question, sets, effort)]
    few = list(zip(sets, forecasts, strict=True))
    # Few runs sort out; what is answered has been simulated with all. Where no set meets the goals,
    # the nearest is the answer, and it is not always the first.
    need = question.goal.confidence
    likely = [values for values, seen in few if not missed_goals(seen, need)]
    nearest = max(few, key=_nearness)[0]  # the first of equals, which has the fewest changes
    tried: list[Improved] = []
    for values in (*likely[:_LIKELY], nearest):
        if values not in [stage for stage, _ in tried]:
            tried.append((values, None))
            found = _with_retries(question, values, effort)
            if _meets(question, found):
                return _smaller(question, values, found, effort, curve)
            tried[-1] = found
    return max(tried, key=_nearness)


def _meets(question: Question, one: Improved) -> bool:
    return one[1] is not None and reaches(one[1], question.goal.confidence)


def _nearness(one: Improved) -> tuple[float, ...]:
    """Return a key by the nearness to the goals; if no run meets one, by goodput."""
    if one[1] is None:
        return (-1.0,)
    shares = [chance.share for chance in one[1].meets.values()]
    return min(shares), sum(shares), one[1].mean_goodput


def _with_retries(question: Question, stage: Changes, effort: Effort) -> Improved:
    """Return a stage with the retries that the changed job needs, and its outcomes.

    The retries are set last, because their number depends on the job's time with the other
    changes. They are those for a market as bad as its trace allows.
    """
    staged = changed(question, stage)
    worst = at_worst(question.market)
    hard = staged if worst is None else changed(staged, {"market": worst.model_dump(mode="json")})
    (unlimited,) = effort.try_each([without_limits(hard)])
    values = stage | enough_retries(staged, unlimited)
    if not values:
        return {}, None
    other = changed(question, values)
    return values, forecast(other, effort.simulate(other))


def _tried(
    question: Question, sets: Sequence[Changes], effort: Effort
) -> list[tuple[Question, Outcomes]]:
    """Try sets of changes with few runs each and unlimited retries."""
    asked = [without_limits(changed(question, values)) for values in sets]
    return list(zip(asked, effort.try_each(asked), strict=True))


def _mixes(question: Question, advised: Counsel) -> Iterator[Changes]:
    """Yield all useful changes, elastic and not, with each affordable number of spares."""
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
    """Drop or halve each change, and move the interval, while the goals hold at no higher cost.

    An interval that is best by itself is too short once a job saves on notice, and spares that
    are best by themselves are too many once it is elastic. The first set stays if all runs do
    not confirm the result of few.
    """
    moves = [] if not stage else [*_simpler(question, stage, curve)]
    if not moves:
        return found
    (price, _), *singles = _priced(question, [stage, *moves], effort)
    better = [values for cost, values in sorted(singles, key=lambda one: one[0]) if cost < price]
    if not better:
        return found
    # Two rounds of simulations, and no chain of one change after another, which took several times
    # as long: each change by itself, then the better ones together, since they may not add up.
    joined = [better[0], *(_joined(stage, better[:n]) for n in range(2, len(better) + 1))]
    different = [values for n, values in enumerate(joined) if values not in joined[:n]]
    sets = [kept_up(question, values) for values in different]
    _, best = min(_priced(question, sets, effort), key=lambda one: one[0])
    again = _with_retries(question, best, effort)
    return again if _meets(question, again) or again == ({}, None) else found


def _priced(
    question: Question, sets: Sequence[Changes], effort: Effort
) -> list[tuple[float, Changes]]:
    """Return sets of changes with their prices, each change added to them."""
    return [
        (_price(*tried) + _A_CHANGE * len(values), values)
        for values, tried in zip(sets, _tried(question, sets, effort), strict=True)
    ]


def _joined(stage: Changes, moves: Sequence[Changes]) -> Changes:
    """Return several sets joined with a stage; if two set the same value, that of the first."""
    values = dict(stage)
    for move in moves:
        for place in {**stage, **move}:
            now, then = stage.get(place), move.get(place)
            if then != now and values.get(place) == now:
                values[place] = then
    return {place: value for place, value in values.items() if value is not None}


def _price(asked: Question, outcomes: Outcomes) -> float:
    """Return a run's mean price, as a share of on-demand; infinite if a goal may be missed."""
    seen = forecast(asked, outcomes)
    if any(chance.share < asked.goal.confidence for chance in seen.meets.values()):
        return math.inf
    costs = costs_of(asked, outcomes)
    return float(costs[np.isfinite(costs)].mean())


def _simpler(question: Question, values: Changes, curve: Curve) -> Iterator[Changes]:
    """Yield sets with one change less, fewer spares, or another interval."""
    for place in values:
        yield kept_up(question, {one: value for one, value in values.items() if one != place})
    spares, now = values.get(SPARES, 0), question.job.spare_nodes
    if spares > now + 1:
        yield {**values, SPARES: max(now, spares // 2)}
        yield {**values, SPARES: spares - 1}
    if INTERVAL in values:
        least = changed(question, values).shortest_steps
        known = (values[INTERVAL], question.job.checkpoint_every_steps)
        for point in curve.points:
            if point.steps >= least and point.steps not in known:
                yield {**values, INTERVAL: point.steps}
