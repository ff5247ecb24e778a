"""Distributions and probabilities of the simulated runs, and the number of runs to simulate."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chaos.preflight.capacity import Floats
from chaos.preflight.estimate import Chance, Spread, chance, spread
from chaos.preflight.question import Goal, Question
from chaos.preflight.simulate import Outcomes, simulate, simulate_each


@dataclass(frozen=True)
class Forecast:
    """Distributions and probabilities of the runs of one question.

    `finish_h` is over all runs, infinite for those that did not finish. Runs that
    had not ended after `watched_h` were cut off then; None if none was. `ledger` has
    the shares of all runs' time by cause. `cost` is the price of a run as a share of
    the same training on on-demand nodes. `ends`: the runs that each budget of retries
    ended. `borders` are the strictest goals that enough runs still meet.
    """

    runs: int
    goodput: Spread
    finish_h: Spread
    watched_h: float | None
    restarts: Spread
    lost_steps: Spread
    lost_share: float
    cost: Spread
    finishes: Chance
    spent: Chance
    ends: dict[str, Chance]
    cut_off: Chance
    meets: dict[str, Chance]
    borders: dict[str, float]
    rescued: Chance
    ledger: dict[str, float]
    mean_goodput: float


def goodput(outcomes: Outcomes) -> Floats:
    """Return each run's share of time that became surviving work on all nodes."""
    return outcomes.work_s / np.maximum(outcomes.end_s, 1e-9)


def lossless_s(question: Question) -> float:
    """Return the seconds that the training takes with all its checkpoints and no loss."""
    saves = math.ceil(question.job.steps / question.job.checkpoint_every_steps)
    return _with_saves_s(question, saves)


def on_demand_s(question: Question) -> float:
    """Return the node-seconds of the same training with no loss, and saved once, at its end.

    It does not depend on the interval: too frequent saves count as a cost.
    """
    return _with_saves_s(question, 1) * question.job.nodes


def _with_saves_s(question: Question, saves: int) -> float:
    costs = question.costs
    assert costs is not None
    return question.work_s + saves * question.stop_s + question.behind_s + costs.begin_s


def forecast(question: Question, outcomes: Outcomes) -> Forecast:
    """Return the forecast by the outcomes of all runs."""
    assert question.costs is not None
    good, done = goodput(outcomes), outcomes.finished > 0
    spent = outcomes.spent > 0
    cut_off, n = ~done & ~spent, len(done)
    price = costs_of(question, outcomes)
    finish_h = np.where(done, outcomes.end_s / 3600, np.inf)
    all_s = float(outcomes.end_s.sum())
    parts = ("useful", "save", "lost", "restart", "wait")
    shares = {part: float(getattr(outcomes, f"{part}_s").sum()) / all_s for part in parts}
    shares["shrunk"] = shares["useful"] - float(outcomes.work_s.sum()) / all_s
    shares["useful"] -= shares["shrunk"]
    noticed = int(outcomes.noticed.sum())
    return Forecast(
        runs=len(outcomes),
        goodput=spread(good),
        finish_h=spread(finish_h),
        watched_h=float(outcomes.end_s[cut_off].max()) / 3600 if cut_off.any() else None,
        restarts=spread(outcomes.restarts),
        lost_steps=spread(outcomes.lost_steps),
        lost_share=shares["lost"],
        cost=spread(price),
        finishes=chance(int(done.sum()), n),
        spent=chance(int(spent.sum()), n),
        ends={name: chance(int(by.sum()), n) for name, by in _ended_by(question, outcomes)},
        cut_off=chance(int(cut_off.sum()), n),
        meets={
            name: chance(int(met.sum()), len(met))
            for name, met in met_goals(question, outcomes).items()
        },
        borders={
            "deadline": _reached(finish_h, question.goal.confidence),
            "budget": _reached(np.where(done, price, np.inf), question.goal.confidence),
            "goodput": -_reached(np.where(done, -good, 0.0), question.goal.confidence),
        },
        rescued=chance(int(outcomes.rescued.sum()), noticed),
        ledger=shares,
        mean_goodput=float(outcomes.work_s.sum()) / all_s,
    )


def _ended_by(question: Question, outcomes: Outcomes) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each budget of retries, and the runs that it ended."""
    settings, left = question.settings, outcomes.spent > 0
    for name, limit, used in (
        ("max_failures", settings.max_failures, outcomes.failures),
        ("max_preemption_failures", settings.max_preemption_failures, outcomes.preemptions),
    ):
        over = left & (used > limit) & (limit >= 0)
        yield name, over
        left = left & ~over
    yield "controller_failure_limit", left


def _reached(values: Floats, share: float) -> float:
    """Return the least value that so large a share of the runs does not exceed."""
    return float(np.quantile(values, share, method="inverted_cdf"))


def costs_of(question: Question, outcomes: Outcomes) -> Floats:
    """Return each run's price as a share of the on-demand price of the whole training.

    The price of a run that did not finish is divided by the part of the work that it
    did, and is infinite if it did none.
    """
    part = outcomes.work_s / question.work_s
    paid = question.market.price_ratio * outcomes.node_s / on_demand_s(question)
    return np.where(part > 0, paid / np.maximum(part, 1e-12), np.inf)


def met_goals(question: Question, outcomes: Outcomes) -> dict[str, np.ndarray]:
    """Return, for each goal, the runs that meet it; to finish is always a goal."""
    goal: Goal = question.goal
    done = outcomes.finished > 0
    met = {"finish": done}
    if goal.deadline_h is not None:
        met["deadline"] = done & (outcomes.end_s <= goal.deadline_h * 3600)
    if goal.budget is not None:
        met["budget"] = done & (costs_of(question, outcomes) <= goal.budget)
    if goal.goodput is not None:
        met["goodput"] = done & (goodput(outcomes) >= goal.goodput)
    return met


# -- the number of simulated runs ---------------------------------------------------------------

FEWER = 40  # a proposal is tried with this many times fewer runs
LEAST = 200
ENOUGH = 2_000  # if these decide by far, no more are simulated
_BY_FAR = 4.0  # standard errors


@dataclass(frozen=True)
class Effort:
    """The most simulated runs, the seed, the processes, and a cache of outcomes."""

    runs: int = 10_000
    seed: int = 0
    jobs: int = 2

    @cached_property
    def _seen(self) -> dict[str, Outcomes]:
        """Outcomes of the questions that were tried, by their JSON."""
        return {}

    def simulate(self, question: Question) -> Outcomes:
        """Return the outcomes of enough runs of a question: more would not change the answer."""
        runs = min(self.runs, ENOUGH)
        first = simulate(question, runs=runs, seed=self.seed, jobs=self.jobs)
        if runs == self.runs or _is_clear(question, first):
            return first
        return simulate(question, runs=self.runs, seed=self.seed, jobs=self.jobs)

    def try_each(self, questions: Sequence[Question]) -> list[Outcomes]:
        """Return the outcomes of fewer runs of each question, on the same draws, from the cache."""
        runs = min(self.runs, max(LEAST, self.runs // FEWER))
        keys = [question.model_dump_json() for question in questions]
        new = {key: one for key, one in zip(keys, questions, strict=True) if key not in self._seen}
        found = simulate_each(
            list(new.values()), runs=runs, seed=self.seed, jobs=self.jobs, to_deadline=True
        )
        self._seen.update(zip(new, found, strict=True))
        return [self._seen[key] for key in keys]


def _is_clear(question: Question, outcomes: Outcomes) -> bool:
    """Return whether every goal is met, or missed, by a wide margin."""
    need = question.goal.confidence
    error = math.sqrt(need * (1 - need) / len(outcomes))
    met = met_goals(question, outcomes).values()
    return all(abs(float(one.mean()) - need) > _BY_FAR * error for one in met)
