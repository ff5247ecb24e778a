"""The answer: go, go with changes, or no-go; and everything that it rests on."""

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from chaos.preflight.advice import BUDGETS, Counsel, counsel, enough_retries
from chaos.preflight.availability import Availability, availability
from chaos.preflight.change import changed
from chaos.preflight.comparison import Validation
from chaos.preflight.curve import Curve, interval_curve
from chaos.preflight.forecast import Forecast, forecast, lossless_s, on_demand_s
from chaos.preflight.grace import Cell, grace_sweep
from chaos.preflight.market import at_worst, loss_interval_s
from chaos.preflight.question import Question
from chaos.preflight.rules.every import findings
from chaos.preflight.rules.rule import Finding
from chaos.preflight.simulate import Outcomes, simulate, simulate_each

Word: TypeAlias = Literal["go", "go with changes", "no-go", "unknown"]
EXIT: dict[Word, int] = {"go": 0, "go with changes": 1, "no-go": 1, "unknown": 2}
WASTE = {
    "save": "saving checkpoints",
    "lost": "steps that are done again",
    "restart": "restarting",
    "wait": "waiting for nodes",
    "shrunk": "training with fewer nodes",
}
_FEWER = 10  # a proposal is tried with a tenth of the runs


@dataclass(frozen=True)
class Effort:
    """How much is simulated: runs of the question itself, the seed, threads."""

    runs: int = 10_000
    seed: int = 0
    jobs: int = 2


@dataclass(frozen=True)
class Answer:
    """A verdict, why, and the figures. What could not be computed is None."""

    question: Question
    effort: Effort
    word: Word
    why: str
    findings: tuple[Finding, ...]
    ignored: tuple[str, ...] = ()
    loss_every_s: float | None = None
    forecast: Forecast | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    after: Forecast | None = None
    counsel: Counsel | None = None
    curve: Curve | None = None
    grace: tuple[Cell, ...] = ()
    availability: Availability | None = None
    finish_bins: tuple[tuple[float, float, int], ...] = ()
    notes: tuple[str, ...] = ()
    validation: tuple[Validation, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 go, 1 go with changes or no-go, 2 unknown."""
        return EXIT[self.word]

    def to_json(self) -> dict[str, Any]:
        """Give everything as plain values; times as their names say."""
        plain = asdict(self)
        plain["question"] = self.question.model_dump(mode="json")
        plain["exit_code"] = self.exit_code
        plain["validation"] = [held.to_json() for held in self.validation]
        finite: dict[str, Any] = _finite(plain)
        return finite


def _finite(value: Any) -> Any:  # noqa: ANN401 (plain values, nested)
    """Spell numbers that JSON does not have as text: `Infinity`."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


def answer(
    question: Question,
    effort: Effort,
    *,
    ignore: Collection[str] = (),
    notes: Collection[str] = (),
) -> Answer:
    """Answer a question; without costs, or with an impossible goal, only what can be said."""
    found = findings(question, ignore=ignore)
    ignored = tuple(sorted(ignore))
    if question.costs is None:
        why = "what a step, a save and a restart cost here is not known: calibrate, or give costs"
        return Answer(question, effort, "unknown", why, found, ignored, notes=tuple(notes))
    return _answered(question, effort, found, (ignored, tuple(notes)))


def _answered(
    question: Question,
    effort: Effort,
    found: tuple[Finding, ...],
    known: tuple[tuple[str, ...], tuple[str, ...]],
) -> Answer:
    ignored, notes = known
    outcomes = simulate(question, runs=effort.runs, seed=effort.seed, jobs=effort.jobs)
    seen = forecast(question, outcomes)
    tried = min(effort.runs, max(200, effort.runs // _FEWER))

    def again(others: Sequence[Question]) -> list[Outcomes]:
        return simulate_each(others, runs=tried, seed=effort.seed, jobs=effort.jobs)

    curve = interval_curve(question, again)
    advised = counsel(question, curve, again)
    changes, after = _improved(question, effort, advised)
    word, why = verdict(question, seen, found, after)
    if word == "go":
        word, why = _at_worst(question, effort, why)
    assert question.costs is not None
    return Answer(
        question=question,
        effort=effort,
        word=word,
        why=why,
        findings=found,
        ignored=ignored,
        loss_every_s=loss_interval_s(question.market, question.job.nodes),
        forecast=seen,
        changes=changes,
        after=after,
        counsel=advised,
        curve=curve,
        grace=grace_sweep(question),
        availability=availability(
            question.market, question.job.pool, hours=_span_h(question, seen), seed=effort.seed
        ),
        finish_bins=_bins(outcomes),
        notes=notes,
    )


def _improved(
    question: Question, effort: Effort, advised: Counsel
) -> tuple[dict[str, Any], Forecast | None]:
    """Give the first stage of changes that meets every goal, else the last, and what it gives.

    Retries are set last, to what the changed job needs: how many that is
    depends on how long the rest makes it run.
    """
    values: dict[str, Any] = {}
    after: Forecast | None = None

    def again(other: Question) -> Outcomes:
        return simulate(other, runs=effort.runs, seed=effort.seed, jobs=effort.jobs)

    for stage in advised.stages:
        staged = changed(question, stage)
        unlimited = again(changed(staged, dict.fromkeys(BUDGETS, -1)))
        values = stage | enough_retries(staged, unlimited)
        if not values:
            continue
        other = changed(question, values)
        after = forecast(other, again(other))
        if all(chance.low >= question.goal.confidence for chance in after.meets.values()):
            break
    return values, after


def verdict(
    question: Question, seen: Forecast, found: Collection[Finding], after: Forecast | None
) -> tuple[Word, str]:
    """Give the verdict and its reason.

    A goal counts as met where the lower end of its chance's interval reaches
    the confidence asked for, as missed where the upper end does not; between
    them, nothing can be said.
    """
    impossible = why_impossible(question)
    if impossible is not None:
        return "no-go", impossible
    need = question.goal.confidence
    stops = [finding for finding in found if finding.weight == "stops"]
    missed = [name for name, chance in seen.meets.items() if chance.high < need]
    open_ = [n for n, chance in seen.meets.items() if chance.low < need <= chance.high]
    if not missed and not open_:
        if stops:
            return "go with changes", f"{stops[0].rule}: {stops[0].text}"
        return "go", _met(seen, need) + _unasked(question, seen)
    if after is not None and all(chance.low >= need for chance in after.meets.values()):
        return "go with changes", _missed(seen, [*missed, *open_], need)
    if missed:
        return "no-go", _missed(seen, missed, need)
    return "unknown", (
        f"{open_[0]}: {seen.meets[open_[0]].share:.1%} of runs, too near {need:.0%} to tell with "
        f"{seen.runs} runs"
    )


def _at_worst(question: Question, effort: Effort, why: str) -> tuple[Word, str]:
    """Keep a go where the market, as bad as its trace allows, does not surely miss a goal."""
    market = at_worst(question.market)
    if market is None:
        return "go", why
    other = changed(question, {"market": market.model_dump(mode="json")})
    seen = forecast(other, simulate(other, runs=effort.runs, seed=effort.seed, jobs=effort.jobs))
    need = question.goal.confidence
    missed = [name for name, chance in seen.meets.items() if chance.high < need]
    if not missed:
        return "go", why
    return "unknown", (
        f"{why}; but at the worse end of what the trace allows ({market.mtbf_h:.2g} h per node) "
        f"{_missed(seen, missed, need)}"
    )


def why_impossible(question: Question) -> str | None:
    """Say which goal could not be met even if no node were ever lost; None where all could."""
    goal = question.goal
    least_s = lossless_s(question)
    if goal.deadline_h is not None and least_s > goal.deadline_h * 3600:
        return (
            f"the training takes {least_s / 3600:.1f} h without any loss; the deadline is "
            f"{goal.deadline_h:g} h"
        )
    paid_s = question.market.price_ratio * question.job.pool * least_s
    least = paid_s / on_demand_s(question)
    if goal.budget is not None and least > goal.budget:
        return (
            f"even without any loss it costs {least:.0%} of on-demand; the budget is "
            f"{goal.budget:.0%}"
        )
    best = question.work_s / least_s
    if goal.goodput is not None and best < goal.goodput:
        return f"goodput without any loss is {best:.1%}; the goal is {goal.goodput:.1%}"
    return None


def _met(seen: Forecast, need: float) -> str:
    least = min(seen.meets, key=lambda name: seen.meets[name].share)
    return f"{least}: {seen.meets[least].share:.1%} of {seen.runs} runs, {need:.0%} needed"


def _unasked(question: Question, seen: Forecast) -> str:
    """Say what a go does not promise where no goal was given."""
    goal = question.goal
    if any(value is not None for value in (goal.deadline_h, goal.budget, goal.goodput)):
        return ""
    times, cost = "", seen.cost.middle
    if seen.finish_h is not None:
        times = f", in {seen.finish_h.middle * 3600 / lossless_s(question):.1f} times the shortest"
    dear = f" and at {cost:.0%} of on-demand" if cost > 1 else ""
    return f"; no goal was given but to finish{times}{dear}"


def _missed(seen: Forecast, missed: Collection[str], need: float) -> str:
    worst = min(missed, key=lambda name: seen.meets[name].share)
    if seen.spent.share > 1 - need:
        cause = f"; {seen.spent.share:.0%} of runs use up their retries"
    else:
        part = max(WASTE, key=lambda part: seen.ledger[part])
        cause = f"; {seen.ledger[part]:.0%} of the time goes into {WASTE[part]}"
    return f"{worst}: {seen.meets[worst].share:.1%} of runs, {need:.0%} needed{cause}"


def _span_h(question: Question, seen: Forecast) -> float:
    finish = seen.finish_h.high if seen.finish_h else 2 * question.work_s / 3600
    return min(24 * 30.0, max(1.0, finish))


def _bins(outcomes: Outcomes, count: int = 40) -> tuple[tuple[float, float, int], ...]:
    """Give (from h, to h, runs) of the finish times; the furthest 0.5 % share the last bin."""
    hours = outcomes.end_s[outcomes.finished > 0] / 3600
    if not len(hours):
        return ()
    low, top = float(hours.min()), float(np.quantile(hours, 0.995))
    span = (low, max(top, low * 1.02))  # runs that all take as long are still drawn as a bar
    counts, edges = np.histogram(np.minimum(hours, top), bins=count, range=span)
    return tuple(
        (float(since), float(until), int(n))
        for since, until, n in zip(edges, edges[1:], counts, strict=False)
    )
