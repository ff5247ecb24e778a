"""The verdict of an answer and its reason, from goals, findings, forecasts and doubts."""

from collections.abc import Collection
from typing import Literal, TypeAlias

import numpy as np

from chaos.preflight.estimate import Chance, in_hours, in_percent, in_shares
from chaos.preflight.forecast import (
    Effort,
    Forecast,
    forecast,
    lossless_s,
    on_demand_s,
    simulate_each,
)
from chaos.preflight.market import Market, Replay, at_worst
from chaos.preflight.question import Question, changed
from chaos.preflight.rules.rule import RuleFinding
from chaos.preflight.trace import FEW, losses_in, resampled
from chaos.words import plural

Word: TypeAlias = Literal["go", "go with changes", "no-go", "cannot tell"]
# 3, 4 and 128 on mean the same in every command of chaos.
EXIT: dict[Word, int] = {"go": 0, "go with changes": 5, "no-go": 1, "cannot tell": 2}
WASTE = {
    "save": "saving checkpoints",
    "lost": "steps that are done again",
    "restart": "restarting",
    "wait": "waiting for nodes",
    "shrunk": "training with fewer nodes",
}


def verdict(
    question: Question, seen: Forecast, found: Collection[RuleFinding], after: Forecast | None
) -> tuple[Word, str]:
    """Return the verdict and its reason.

    A goal counts as met if the lower end of its chance's interval reaches the
    required confidence, as missed if the upper end does not; otherwise it is open.
    A no-go requires that it is missed with the changes as well: `after`, the best
    that was tried.
    """
    need, impossible = question.goal.confidence, why_impossible(question)
    if impossible is not None:
        return _impossible(impossible, after, need)
    missed = missed_goals(seen, need)
    stops = [finding for finding in found if finding.weight == "stops"]
    open_ = [n for n, chance in seen.meets.items() if chance.low < need <= chance.high]
    if not missed and not open_:
        if stops:
            return "go with changes", f"{stops[0].rule}: {stops[0].text}"
        return "go", _met(seen, need) + _unasked(question, seen)
    why = why_missed(seen, missed, need) if missed else _too_near(seen, open_[0], need)
    if after is not None and reaches(after, need):
        return "go with changes", why
    if not missed:
        return "cannot tell", why
    return _missing(seen, seen if after is None else after, need)


def _impossible(why: str, after: Forecast | None, need: float) -> tuple[Word, str]:
    """Return no-go if a goal that cannot be met without changes is missed with them as well."""
    if after is None or missed_goals(after, need):
        return "no-go", why
    if reaches(after, need):
        return "go with changes", why
    return _nearly(why, after, need)


def _missing(seen: Forecast, after: Forecast, need: float) -> tuple[Word, str]:
    """Return no-go if a goal is missed with the best changes as well."""
    missed, lasting = missed_goals(seen, need), missed_goals(after, need)
    if not lasting:
        return _nearly(why_missed(seen, missed, need), after, need)
    named = [name for name in missed if name in lasting]
    return "no-go", why_missed(seen, named or missed, need) + _at_best(seen, after)


def _nearly(why: str, after: Forecast, need: float) -> tuple[Word, str]:
    goal = next(name for name, chance in after.meets.items() if chance.low < need)
    return "cannot tell", f"{why}; with changes {_too_near(after, goal, need)}"


def reaches(seen: Forecast, need: float) -> bool:
    """Return whether every goal surely is met as often as needed."""
    return all(chance.low >= need for chance in seen.meets.values())


def missed_goals(seen: Forecast, need: float) -> list[str]:
    """Return the goals that surely are not met as often as needed."""
    return [name for name, chance in seen.meets.items() if chance.high < need]


def _too_near(seen: Forecast, goal: str, need: float) -> str:
    chance = seen.meets[goal]
    return (
        f"{goal}: {chance.share:.1%} of runs ({chance.low:.1%} to {chance.high:.1%}), "
        f"{in_percent(need)} needed: {seen.runs} runs do not tell"
    )


def _at_best(seen: Forecast, after: Forecast) -> str:
    """Return in words the result of the best changes that were tried, if it is better."""
    goal, chance = _least(after)
    if chance.share <= _least(seen)[1].share:
        return ""
    return f"; with the best changes that were tried {goal}: {chance.share:.1%}"


def _least(seen: Forecast) -> tuple[str, Chance]:
    return min(seen.meets.items(), key=lambda goal: goal[1].share)


def why_impossible(question: Question) -> str | None:
    """Return a goal that could not be met even without any loss; None if all could."""
    goal = question.goal
    least_s = lossless_s(question)
    if goal.deadline_h is not None and least_s > goal.deadline_h * 3600:
        return (
            f"the training takes {least_s / 3600:.1f} h without any loss; the deadline is "
            f"{goal.deadline_h:g} h"
        )
    job = question.job
    paid_s = (question.market.price_ratio * job.at_risk + job.on_demand_nodes) * least_s
    least = paid_s / on_demand_s(question)
    if goal.budget is not None and least > goal.budget:
        return (
            f"even without any loss it costs {in_shares(least)} of on-demand; the budget is "
            f"{goal.budget:.0%}"
        )
    best = question.work_s / least_s
    if goal.goodput is not None and best < goal.goodput:
        return f"goodput without any loss is {best:.1%}; the goal is {goal.goodput:.1%}"
    return None


def _met(seen: Forecast, need: float) -> str:
    goal, chance = _least(seen)
    return f"{goal}: {chance.share:.1%} of {seen.runs} runs, {in_percent(need)} needed"


def _unasked(question: Question, seen: Forecast) -> str:
    """Return the note that a go without goals promises only to finish."""
    goal = question.goal
    if any(value is not None for value in (goal.deadline_h, goal.budget, goal.goodput)):
        return ""
    times, cost = seen.finish_h.middle * 3600 / lossless_s(question), seen.cost.middle
    dear = f" and at {in_shares(cost)} of on-demand" if cost > 1 else ""
    return f"; no goal was given but to finish, in {times:.1f} times the shortest{dear}"


def why_missed(seen: Forecast, missed: Collection[str], need: float) -> str:
    """Return in words how often the worst of these goals is met, and the causes of its loss."""
    worst = min(missed, key=lambda name: seen.meets[name].share)
    if seen.spent.share > 1 - need:
        cause = f"; {seen.spent.share:.0%} of runs use up their retries"
    else:
        part = max(WASTE, key=lambda part: seen.ledger[part])
        cause = f"; {seen.ledger[part]:.0%} of the time goes into {WASTE[part]}"
    share, within = seen.meets[worst].share, ""
    if worst == "finish" and seen.watched_h is not None:
        within = f" within {in_hours(seen.watched_h)}"
    return f"{worst}: {share:.1%} of runs{within}, {in_percent(need)} needed{cause}"


# -- doubts that revoke a go --------------------------------------------------------------------

# Traces that are drawn anew out of pieces of a repeated one; no more than one may miss a goal.
TRACES = 40
MAY_MISS = 1  # of these: more than one in forty is beyond the worse end of a 95 % interval
# Traces at one time, each with so many runs: as soon as two miss a goal the rest is left out.
_AT_ONCE, _RUNS = 8, 400


def doubt(question: Question, seen: Forecast, effort: Effort) -> str | None:
    """Return the doubt in the market's data that revokes a go; None if there is none."""
    replay = question.market.replay
    if replay is not None:
        return _too_little(replay, seen) or _drawn_anew(question, replay, effort)
    worst = at_worst(question.market)
    return None if worst is None else _at_worst(question, worst, effort)


def _at_worst(question: Question, worst: Market, effort: Effort) -> str | None:
    """Return in words the goals that are surely missed in a market as bad as its trace allows."""
    other = changed(question, {"market": worst.model_dump(mode="json")})
    seen, need = forecast(other, effort.simulate(other)), question.goal.confidence
    missed = missed_goals(seen, need)
    if not missed:
        return None
    return (
        f"at the worse end of what the trace allows ({worst.mtbf_h:.2g} h per node) "
        f"{why_missed(seen, missed, need)}"
    )


def _too_little(replay: Replay, seen: Forecast) -> str | None:
    """Return in words that a trace is too short to be repeated for this job, if it is."""
    span_h, losses = replay.span_s / 3600, losses_in(replay)
    if losses < FEW:
        return (
            f"only {plural(losses, 'loss', 'losses')} in the {in_hours(span_h)} that are repeated "
            f"({FEW} at least): how often they come is not known; fitted, the trace says what it "
            "allows"
        )
    if seen.finish_h.middle > span_h:
        return (
            f"the trace shows {in_hours(span_h)} and the training takes "
            f"{in_hours(seen.finish_h.middle)}: every run meets the same losses over and over"
        )
    return None


def _drawn_anew(question: Question, replay: Replay, effort: Effort) -> str | None:
    """Return in words how many of the traces resampled from this one surely miss a goal."""
    rng = np.random.Generator(np.random.PCG64(effort.seed))
    others = [
        changed(question, {"market.replay": resampled(replay, rng).model_dump(mode="json")})
        for _ in range(TRACES)
    ]
    need, missed, seen = question.goal.confidence, 0, 0
    for since in range(0, TRACES, _AT_ONCE):
        asked = others[since : since + _AT_ONCE]
        outcomes = simulate_each(asked, runs=_RUNS, seed=effort.seed, jobs=effort.jobs)
        forecasts = [forecast(*pair) for pair in zip(asked, outcomes, strict=True)]
        missed += sum(bool(missed_goals(one, need)) for one in forecasts)
        seen += len(asked)
        if missed > MAY_MISS:
            return f"of {seen} traces drawn anew out of pieces of this one {missed} miss a goal"
    return None
