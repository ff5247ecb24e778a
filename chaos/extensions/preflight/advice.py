"""Changes of settings, the gain of each, and the fewest that together meet every goal."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from chaos.extensions.preflight.capacity import Flags, Floats
from chaos.extensions.preflight.estimate import Estimate, estimate_mean, format_seconds
from chaos.extensions.preflight.forecast import (
    MOST_RETRIES,
    SUFFICIENT,
    Effort,
    Forecast,
    Outcomes,
    build_forecast,
    charged_budgets,
    count_needed_retries,
    find_price_shares,
    goodput,
    met_goals,
)
from chaos.extensions.preflight.intervals import IntervalCurve, Simulate
from chaos.extensions.preflight.market import find_worst_market
from chaos.extensions.preflight.question import (
    BUDGETS,
    PARTS,
    Question,
    change_question,
    remove_limits,
)
from chaos.extensions.preflight.settings import RaySettings
from chaos.extensions.preflight.verdict import explain_impossible, missed_goals, reaches
from chaos.wording import plural

LEVER = 0.5  # the factor on a cost, to see whether it is a lever
# Of a chance, or of goodput: a gain below it is not worth a change.
_SHORT = 0.001
# Of the price as a share of on-demand: less is no difference that is worth a word.
_DEARER = 0.005
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
class SettingsAdvice:
    """Proposals for settings, best first."""

    settings: tuple[Advice, ...]
    #: the gains of halving a cost
    levers: tuple[Advice, ...]
    #: all numbers of spare nodes that were tried, of which the best is among `settings`
    spares: tuple[Advice, ...] = ()

    @property
    def stages(self) -> tuple[dict[str, Any], ...]:
        """Sets of the useful changes, without budgets: none, those that cost no more, all."""
        worthwhile = [
            advice
            for advice in self.settings
            if advice.is_worth_it and not set(advice.values) & BUDGETS
        ]
        free_changes = _join_changes([advice for advice in worthwhile if not advice.is_dearer])
        return ({}, free_changes, _join_changes(worthwhile))


def _join_changes(advice: Sequence[Advice]) -> dict[str, Any]:
    """Join changes; if two set the same value, that of the better one is used."""
    values: dict[str, Any] = {}
    for proposal in advice:
        values = {**proposal.values, **values}
    return values


def build_counsel(question: Question, curve: IntervalCurve, simulate: Simulate) -> SettingsAdvice:
    """Try each possible improvement by itself, on the same draws.

    If retries run out, no other effect can be seen. So all changes but the budgets
    themselves are judged with unlimited retries.
    """
    unlimited_question = remove_limits(question)
    (unlimited_outcomes,) = simulate([unlimited_question])
    values = enough_retries(question, unlimited_outcomes)
    budgets = [
        (_describe_budget(name, count), {f"settings.{name}": values[f"settings.{name}"]})
        for name, count in _count_short_budgets(question, unlimited_outcomes).items()
    ]
    instead = f"instead of {question.job.spare_nodes}"
    rungs = ladder(question)
    spares = [(f"{plural(count, 'spare node')} {instead}", {SPARES: count}) for count in rungs]
    proposals, levers = list(_propose_changes(question, curve)), list(_levers(question))
    rows = [(question, *row) for row in budgets]
    rows += [(unlimited_question, *row) for row in (*spares, *proposals, *levers)]
    base, *changed_outcomes = simulate(
        [question, *(change_question(base_question, values) for base_question, _, values in rows)]
    )
    tried = [
        _measure_change(
            row[0], base if row[0] is question else unlimited_outcomes, *row[1:], outcomes
        )
        for row, outcomes in zip(rows, changed_outcomes, strict=True)
    ]
    spare_advice = [advice for advice in tried if set(advice.values) == {SPARES}]
    best = sorted(spare_advice, key=_value_of_spares)[:1]
    count = len(tried) - len(levers)
    settings = [*best, *(advice for advice in tried[:count] if advice not in spare_advice)]
    levers_tried = sorted(tried[count:], key=_worth)
    return SettingsAdvice(
        tuple(sorted(settings, key=_worth)), tuple(levers_tried), tuple(spare_advice)
    )


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


def _measure_change(
    question: Question,
    base: Outcomes,
    description: str,
    values: Mapping[str, Any],
    outcomes: Outcomes,
) -> Advice:
    """Compare the outcomes of a changed question with those of the question as it is."""
    changed_question = change_question(question, values)
    # Run by run, both on the same losses: the spread of a difference is that of the change alone.
    price, price_other = (
        find_price_shares(question, base),
        find_price_shares(changed_question, outcomes),
    )
    finite = np.isfinite(price) & np.isfinite(price_other)
    return Advice(
        description,
        dict(values),
        estimate_mean(_all_met(changed_question, outcomes) - _all_met(question, base)),
        estimate_mean(goodput(outcomes) - goodput(base)),
        estimate_mean(price_other[finite] - price[finite]) if finite.any() else None,
    )


def _all_met(question: Question, outcomes: Outcomes) -> Floats:
    met: Flags = np.all([*met_goals(question, outcomes).values()], axis=0)
    return met.astype(float)


def enough_retries(question: Question, unlimited: Outcomes) -> dict[str, Any]:
    """Return the budgets that suffice, if those that are set do not; above ten without limit."""
    return {
        f"settings.{name}": -1 if count > MOST_RETRIES else count
        for name, count in _count_short_budgets(question, unlimited).items()
    }


def _count_short_budgets(question: Question, unlimited: Outcomes) -> dict[str, int]:
    """Return the retries that would suffice of each budget that does not."""
    counts = count_needed_retries(question, unlimited)
    return {
        name: counts[name]
        for name, limit, used in charged_budgets(question, unlimited)
        if 0 <= limit < math.ceil(float(np.quantile(used, SUFFICIENT)))
    }


def _describe_budget(name: str, count: int) -> str:
    return (
        f"{name} {count}" if count <= MOST_RETRIES else f"{name} without limit ({count} would do)"
    )


def _propose_changes(
    question: Question, curve: IntervalCurve
) -> Iterator[tuple[str, dict[str, Any]]]:
    job, notice = question.job, question.market.notice
    current_point = curve.find_point(job.checkpoint_every_steps)
    if curve.best.simulated - current_point.simulated > _SHORT:
        text = f"a checkpoint every {curve.best_steps} steps instead of {current_point.steps}"
        yield text, {"job.checkpoint_every_steps": curve.best_steps}
    mode = question.settings.background_upload_mode
    if question.settings.checkpoint_upload_mode == "sync" and question.required_costs.upload_s:
        upload_changes = {"settings.checkpoint_upload_mode": mode}
        yield f"upload beside training ({mode})", lengthen_interval(question, upload_changes)
    if notice.seconds and isinstance(question.settings, RaySettings):
        yield from _propose_notice_saves(question, question.settings)
    if question.market.makes_wait and job.min_nodes is None and job.nodes > 1:
        min_nodes = max(1, math.ceil(0.75 * job.nodes))
        if min_nodes < job.nodes:
            yield (
                f"elastic: go on with {min_nodes} to {job.nodes} nodes",
                {"job.min_nodes": min_nodes},
            )


def _propose_notice_saves(
    question: Question, settings: RaySettings
) -> Iterator[tuple[str, dict[str, Any]]]:
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


def lengthen_interval(question: Question, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes with an interval at which uploads keep up, if theirs is too short."""
    changed_question = change_question(question, values)
    if changed_question.job.checkpoint_every_steps >= changed_question.shortest_steps:
        return dict(values)
    return {**values, "job.checkpoint_every_steps": changed_question.shortest_steps}


def _levers(question: Question) -> Iterator[tuple[str, dict[str, Any]]]:
    costs = question.required_costs
    for name, now_s, parts in (
        ("restart", costs.restart_s, PARTS),
        ("save", costs.save_s, ("save_s",)),
        ("upload", costs.upload_s, ("upload_s",)),
    ):
        if now_s or name == "restart":
            halved = {f"costs.{part}": getattr(costs, part) * LEVER for part in parts}
            yield (
                f"half the {name} ({format_seconds(now_s)} → {format_seconds(now_s * LEVER)})",
                halved,
            )
    if question.market.away_h and not question.market.is_shared:
        text = f"replacements in half the time ({question.market.away_h * 60:.0f} min now)"
        yield text, {"market.away_h": question.market.away_h * LEVER}


# -- changes set together -----------------------------------------------------------------------

Changes: TypeAlias = dict[str, Any]
Improved: TypeAlias = tuple[Changes, Forecast | None]
INTERVAL = "job.checkpoint_every_steps"
_A_CHANGE = 0.002  # share of the on-demand price that one change less may cost
_LIKELY = 3  # sets of changes that are tried with all runs


def find_improvement(
    question: Question, effort: Effort, advice: SettingsAdvice, curve: IntervalCurve
) -> Improved:
    """Return the fewest and cheapest changes found that meet every goal, and their outcomes.

    Stages of the useful changes are tried first. If none meets the goals, the useful changes
    are tried with each other number of spare nodes as well: each may help by itself while
    all together cost too much. A set that meets the goals is then made smaller.
    """
    sets = [lengthen_interval(question, stage) for stage in advice.stages]
    sets += [mix for mix in _mixes(question, advice) if mix not in sets]
    forecasts = [build_forecast(*trial) for trial in _try_sets(question, sets, effort)]
    quick_results = list(zip(sets, forecasts, strict=True))
    # Few runs sort out; what is answered has been simulated with all. Where no set meets the goals,
    # the nearest is the answer, and it is not always the first.
    need = question.goal.confidence
    likely = [
        values for values, run_forecast in quick_results if not missed_goals(run_forecast, need)
    ]
    nearest = max(quick_results, key=_nearness)[
        0
    ]  # the first of equals, which has the fewest changes
    tried: list[Improved] = []
    for values in (*likely[:_LIKELY], nearest):
        if values not in [stage for stage, _ in tried]:
            tried.append((values, None))
            improvement = _add_retries(question, values, effort)
            if _meets(question, improvement):
                return _shrink_changes(question, values, improvement, effort, curve)
            tried[-1] = improvement
    return max(tried, key=_nearness)


def _meets(question: Question, improvement: Improved) -> bool:
    return improvement[1] is not None and reaches(improvement[1], question.goal.confidence)


def _nearness(improvement: Improved) -> tuple[float, ...]:
    """Return a key by the nearness to the goals; if no run meets one, by goodput."""
    if improvement[1] is None:
        return (-1.0,)
    shares = [chance.share for chance in improvement[1].meets.values()]
    return min(shares), sum(shares), improvement[1].mean_goodput


def _add_retries(question: Question, stage: Changes, effort: Effort) -> Improved:
    """Return a stage with the retries that the changed job needs, and its outcomes.

    The retries are set last, because their number depends on the job's time with the other
    changes. They are those for a market as bad as its trace allows.
    """
    staged = change_question(question, stage)
    worst = find_worst_market(question.market)
    worst_question = (
        staged
        if worst is None
        else change_question(staged, {"market": worst.model_dump(mode="json")})
    )
    (unlimited,) = effort.try_each([remove_limits(worst_question)])
    values = stage | enough_retries(staged, unlimited)
    if not values:
        return {}, None
    changed_question = change_question(question, values)
    return values, build_forecast(changed_question, effort.simulate(changed_question))


def _try_sets(
    question: Question, sets: Sequence[Changes], effort: Effort
) -> list[tuple[Question, Outcomes]]:
    """Try sets of changes with few runs each and unlimited retries."""
    questions = [remove_limits(change_question(question, values)) for values in sets]
    return list(zip(questions, effort.try_each(questions), strict=True))


def _mixes(question: Question, advice: SettingsAdvice) -> Iterator[Changes]:
    """Yield all useful changes, elastic and not, with each affordable number of spares."""
    all_changes = advice.stages[-1]
    for left_out in ({SPARES}, {SPARES, "job.min_nodes"}):
        remaining_changes = {
            key: value for key, value in all_changes.items() if key not in left_out
        }
        if len(left_out) > 1 and "job.min_nodes" not in all_changes:
            return
        for rung in ({}, *(spare_advice.values for spare_advice in advice.spares)):
            mix = lengthen_interval(question, {**remaining_changes, **rung})
            if (
                mix not in advice.stages
                and explain_impossible(change_question(question, mix)) is None
            ):
                yield mix


def _shrink_changes(
    question: Question, stage: Changes, improvement: Improved, effort: Effort, curve: IntervalCurve
) -> Improved:
    """Drop or halve each change, and move the interval, while the goals hold at no higher cost.

    An interval that is best by itself is too short once a job saves on notice, and spares that
    are best by themselves are too many once it is elastic. The first set stays if all runs do
    not confirm the result of few.
    """
    moves = [] if not stage else [*_simplify_changes(question, stage, curve)]
    if not moves:
        return improvement
    (price, _), *singles = _price_sets(question, [stage, *moves], effort)
    better = [
        values
        for cost, values in sorted(singles, key=lambda priced_set: priced_set[0])
        if cost < price
    ]
    if not better:
        return improvement
    # Two rounds of simulations, and no chain of one change after another, which took several times
    # as long: each change by itself, then the better ones together, since they may not add up.
    joined = [better[0], *(_join_moves(stage, better[:n]) for n in range(2, len(better) + 1))]
    different = [values for n, values in enumerate(joined) if values not in joined[:n]]
    sets = [lengthen_interval(question, values) for values in different]
    _, best = min(_price_sets(question, sets, effort), key=lambda priced_set: priced_set[0])
    smaller_improvement = _add_retries(question, best, effort)
    return (
        smaller_improvement
        if _meets(question, smaller_improvement) or smaller_improvement == ({}, None)
        else improvement
    )


def _price_sets(
    question: Question, sets: Sequence[Changes], effort: Effort
) -> list[tuple[float, Changes]]:
    """Return sets of changes with their prices, each change added to them."""
    return [
        (_price(*tried) + _A_CHANGE * len(values), values)
        for values, tried in zip(sets, _try_sets(question, sets, effort), strict=True)
    ]


def _join_moves(stage: Changes, moves: Sequence[Changes]) -> Changes:
    """Return several sets joined with a stage; if two set the same value, that of the first."""
    values = dict(stage)
    for move in moves:
        for key in {**stage, **move}:
            base_value, moved_value = stage.get(key), move.get(key)
            if moved_value != base_value and values.get(key) == base_value:
                values[key] = moved_value
    return {key: value for key, value in values.items() if value is not None}


def _price(question: Question, outcomes: Outcomes) -> float:
    """Return a run's mean price, as a share of on-demand; infinite if a goal may be missed."""
    run_forecast = build_forecast(question, outcomes)
    if any(chance.share < question.goal.confidence for chance in run_forecast.meets.values()):
        return math.inf
    costs = find_price_shares(question, outcomes)
    return float(costs[np.isfinite(costs)].mean())


def _simplify_changes(
    question: Question, values: Changes, curve: IntervalCurve
) -> Iterator[Changes]:
    """Yield sets with one change less, fewer spares, or another interval."""
    for dropped_key in values:
        yield lengthen_interval(
            question, {key: value for key, value in values.items() if key != dropped_key}
        )
    spares, current_spares = values.get(SPARES, 0), question.job.spare_nodes
    if spares > current_spares + 1:
        yield {**values, SPARES: max(current_spares, spares // 2)}
        yield {**values, SPARES: spares - 1}
    if INTERVAL in values:
        min_steps = change_question(question, values).shortest_steps
        tried_steps = (values[INTERVAL], question.job.checkpoint_every_steps)
        for point in curve.points:
            if point.steps >= min_steps and point.steps not in tried_steps:
                yield {**values, INTERVAL: point.steps}
