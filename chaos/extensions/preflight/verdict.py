"""The verdict of an answer and its reason, from goals, findings, forecasts and doubts."""

from collections.abc import Collection
from typing import Literal, TypeAlias

import numpy as np

from chaos.extensions.preflight.estimate import (
    Chance,
    format_hours,
    format_percent,
    format_price_share,
)
from chaos.extensions.preflight.forecast import (
    Effort,
    Forecast,
    build_forecast,
    find_reference_node_s,
    lossless_s,
    simulate_each,
)
from chaos.extensions.preflight.market import Market, Replay, find_worst_market
from chaos.extensions.preflight.question import Question, change_question
from chaos.extensions.preflight.rules.rule import RuleFinding
from chaos.extensions.preflight.start_limit import (
    explain_impossible_starts,
    explain_start_limit,
    remove_start_limit,
)
from chaos.extensions.preflight.trace import FEW, count_losses, resample_trace
from chaos.wording import plural

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


def find_verdict(
    question: Question,
    forecast: Forecast,
    findings: Collection[RuleFinding],
    changed_forecast: Forecast | None,
) -> tuple[Word, str]:
    """Return the verdict and its reason.

    A goal counts as met if the lower end of its chance's interval reaches the
    required confidence, as missed if the upper end does not; otherwise it is open.
    A no-go requires that it is missed with the changes as well: `changed_forecast`, the best
    that was tried.
    """
    need, impossible = question.goal.confidence, explain_impossible(question)
    if impossible is not None:
        return _judge_impossible(impossible, changed_forecast, need)
    missed = missed_goals(forecast, need)
    stopping_findings = [finding for finding in findings if finding.weight == "stops"]
    open_goals = [n for n, chance in forecast.meets.items() if chance.low < need <= chance.high]
    if not missed and not open_goals:
        if stopping_findings:
            return "go with changes", f"{stopping_findings[0].rule}: {stopping_findings[0].text}"
        return "go", _describe_met(forecast, need) + _describe_no_goal(question, forecast)
    why = (
        explain_missed(forecast, missed, need)
        if missed
        else _describe_open_goal(forecast, open_goals[0], need)
    )
    limit_note = _describe_start_limit(question, forecast) if missed else ""
    if changed_forecast is not None and reaches(changed_forecast, need):
        return "go with changes", why + limit_note
    if not missed:
        return "cannot tell", why
    best_forecast = forecast if changed_forecast is None else changed_forecast
    word, why = _judge_missed(forecast, best_forecast, need)
    return word, why + limit_note


def _describe_start_limit(question: Question, forecast: Forecast) -> str:
    """Return the note on too short a limit of a start, if it ended runs that no loss renewed."""
    limited = explain_start_limit(question) if forecast.timed_out.share else None
    return "" if limited is None else f"; {limited}"


def _judge_impossible(why: str, changed_forecast: Forecast | None, need: float) -> tuple[Word, str]:
    """Return no-go if a goal that cannot be met without changes is missed with them as well."""
    if changed_forecast is None or missed_goals(changed_forecast, need):
        return "no-go", why
    if reaches(changed_forecast, need):
        return "go with changes", why
    return _call_undecided(why, changed_forecast, need)


def _judge_missed(forecast: Forecast, changed_forecast: Forecast, need: float) -> tuple[Word, str]:
    """Return no-go if a goal is missed with the best changes as well."""
    missed, changed_misses = missed_goals(forecast, need), missed_goals(changed_forecast, need)
    if not changed_misses:
        return _call_undecided(explain_missed(forecast, missed, need), changed_forecast, need)
    lasting_misses = [name for name in missed if name in changed_misses]
    return "no-go", explain_missed(
        forecast, lasting_misses or missed, need
    ) + _describe_best_changes(forecast, changed_forecast)


def _call_undecided(why: str, changed_forecast: Forecast, need: float) -> tuple[Word, str]:
    goal = next(name for name, chance in changed_forecast.meets.items() if chance.low < need)
    return "cannot tell", f"{why}; with changes {_describe_open_goal(changed_forecast, goal, need)}"


def reaches(forecast: Forecast, need: float) -> bool:
    """Return whether every goal surely is met as often as needed."""
    return all(chance.low >= need for chance in forecast.meets.values())


def missed_goals(forecast: Forecast, need: float) -> list[str]:
    """Return the goals that surely are not met as often as needed."""
    return [name for name, chance in forecast.meets.items() if chance.high < need]


def _describe_open_goal(forecast: Forecast, goal: str, need: float) -> str:
    chance = forecast.meets[goal]
    return (
        f"{goal}: {chance.share:.1%} of runs ({chance.low:.1%} to {chance.high:.1%}), "
        f"{format_percent(need)} needed: {forecast.runs} runs do not tell"
    )


def _describe_best_changes(forecast: Forecast, changed_forecast: Forecast) -> str:
    """Return in words the result of the best changes that were tried, if it is better."""
    goal, chance = _find_weakest_goal(changed_forecast)
    if chance.share <= _find_weakest_goal(forecast)[1].share:
        return ""
    return f"; with the best changes that were tried {goal}: {chance.share:.1%}"


def _find_weakest_goal(forecast: Forecast) -> tuple[str, Chance]:
    return min(forecast.meets.items(), key=lambda goal: goal[1].share)


def explain_impossible(question: Question) -> str | None:
    """Return a goal that could not be met even without any loss; None if all could."""
    goal, limited = question.goal, explain_impossible_starts(question)
    if limited is not None:
        return limited
    if explain_start_limit(question) is not None:
        question = remove_start_limit(question)  # only losses get it further, and few may do
    min_s = lossless_s(question)
    if goal.deadline_h is not None and min_s > goal.deadline_h * 3600:
        return (
            f"the training takes {min_s / 3600:.1f} h without any loss; the deadline is "
            f"{goal.deadline_h:g} h"
        )
    job = question.job
    paid_s = (question.market.price_ratio * job.spot_nodes + job.on_demand_nodes) * min_s
    min_cost = paid_s / find_reference_node_s(question)
    if goal.budget is not None and min_cost > goal.budget:
        return (
            f"even without any loss it costs {format_price_share(min_cost)} of on-demand; the "
            "budget is "
            f"{goal.budget:.0%}"
        )
    best = question.work_s / min_s
    if goal.goodput is not None and best < goal.goodput:
        return f"goodput without any loss is {best:.1%}; the goal is {goal.goodput:.1%}"
    return None


def _describe_met(forecast: Forecast, need: float) -> str:
    goal, chance = _find_weakest_goal(forecast)
    return f"{goal}: {chance.share:.1%} of {forecast.runs} runs, {format_percent(need)} needed"


def _describe_no_goal(question: Question, forecast: Forecast) -> str:
    """Return the note that a go without goals promises only to finish."""
    goal = question.goal
    if any(value is not None for value in (goal.deadline_h, goal.budget, goal.goodput)):
        return ""
    times, cost = forecast.finish_h.middle * 3600 / lossless_s(question), forecast.cost.middle
    dear = f" and at {format_price_share(cost)} of on-demand" if cost > 1 else ""
    return f"; no goal was given but to finish, in {times:.1f} times the shortest{dear}"


def explain_missed(forecast: Forecast, missed: Collection[str], need: float) -> str:
    """Return in words how often the worst of these goals is met, and the causes of its loss."""
    worst = min(missed, key=lambda name: forecast.meets[name].share)
    if forecast.spent.share > 1 - need:
        cause = f"; {forecast.spent.share:.0%} of runs use up their retries"
    elif forecast.timed_out.share > 1 - need:
        cause = f"; {forecast.timed_out.share:.0%} of runs are ended by the time limit of a start"
    else:
        part = max(WASTE, key=lambda part: forecast.ledger[part])
        cause = f"; {forecast.ledger[part]:.0%} of the time goes into {WASTE[part]}"
    share, within = forecast.meets[worst].share, ""
    if worst == "finish" and forecast.watched_h is not None:
        within = f" within {format_hours(forecast.watched_h)}"
    return f"{worst}: {share:.1%} of runs{within}, {format_percent(need)} needed{cause}"


# -- doubts that revoke a go --------------------------------------------------------------------

# Traces that are drawn anew out of pieces of a repeated one; no more than one may miss a goal.
TRACES = 40
MAY_MISS = 1  # of these: more than one in forty is beyond the worse end of a 95 % interval
# Traces at one time, each with so many runs: as soon as two miss a goal the rest is left out.
_AT_ONCE, _RUNS = 8, 400


def find_doubt(question: Question, forecast: Forecast, effort: Effort) -> str | None:
    """Return the doubt in the market's data that revokes a go; None if there is none."""
    replay = question.market.replay
    if replay is not None:
        return _check_trace_length(replay, forecast) or _check_resampled_traces(
            question, replay, effort
        )
    worst = find_worst_market(question.market)
    return None if worst is None else _check_worst_market(question, worst, effort)


def _check_worst_market(question: Question, worst: Market, effort: Effort) -> str | None:
    """Return in words the goals that are surely missed in a market as bad as its trace allows."""
    worst_question = change_question(question, {"market": worst.model_dump(mode="json")})
    worst_forecast, need = (
        build_forecast(worst_question, effort.simulate(worst_question)),
        question.goal.confidence,
    )
    missed = missed_goals(worst_forecast, need)
    if not missed:
        return None
    return (
        f"at the worse end of what the trace allows ({worst.mtbf_h:.2g} h per node) "
        f"{explain_missed(worst_forecast, missed, need)}"
    )


def _check_trace_length(replay: Replay, forecast: Forecast) -> str | None:
    """Return in words that a trace is too short to be repeated for this job, if it is."""
    span_h, losses = replay.span_s / 3600, count_losses(replay)
    if losses < FEW:
        return (
            f"only {plural(losses, 'loss', 'losses')} in the {format_hours(span_h)} that are "
            "repeated "
            f"({FEW} at least): how often they come is not known; fitted, the trace says what it "
            "allows"
        )
    if forecast.finish_h.middle > span_h:
        return (
            f"the trace shows {format_hours(span_h)} and the training takes "
            f"{format_hours(forecast.finish_h.middle)}: every run meets the same losses over and "
            "over"
        )
    return None


def _check_resampled_traces(question: Question, replay: Replay, effort: Effort) -> str | None:
    """Return in words how many of the traces resampled from this one surely miss a goal."""
    rng = np.random.Generator(np.random.PCG64(effort.seed))
    variants = [
        change_question(
            question, {"market.replay": resample_trace(replay, rng).model_dump(mode="json")}
        )
        for _ in range(TRACES)
    ]
    need, missed, tried_count = question.goal.confidence, 0, 0
    for start_index in range(0, TRACES, _AT_ONCE):
        batch = variants[start_index : start_index + _AT_ONCE]
        outcomes = simulate_each(batch, runs=_RUNS, seed=effort.seed, jobs=effort.jobs)
        forecasts = [build_forecast(*pair) for pair in zip(batch, outcomes, strict=True)]
        missed += sum(bool(missed_goals(variant_forecast, need)) for variant_forecast in forecasts)
        tried_count += len(batch)
        if missed > MAY_MISS:
            return (
                f"of {tried_count} traces drawn anew out of pieces of this one {missed} miss a goal"
            )
    return None
