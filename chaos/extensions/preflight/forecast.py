"""The simulation of many runs of a job on a market, and the forecast by their outcomes.

Time advances from one change of the pool to the next. The job's work in between is
computed, not stepped through, so a month of training takes as many rounds as it has
changes. Runs are in blocks of fixed size, each with generators of its own: memory is
bounded, and the same seed leads to the same bits on any number of cores.
"""

import math
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from functools import cached_property
from multiprocessing import get_context
from typing import TypeAlias

import numpy as np

from chaos.errors import UsageError
from chaos.extensions.preflight.capacity import HOUR_S, Flags, Floats, pools_capacity
from chaos.extensions.preflight.estimate import Chance, Quantiles, chance, spread
from chaos.extensions.preflight.market import Exponential, LossNotice, Market, loss_interval_s
from chaos.extensions.preflight.question import Question
from chaos.extensions.preflight.simulated_runs import SimulatedRuns
from chaos.extensions.preflight.start_limit import plan_lossless_course

# Runs of one block share a generator, so that the bits do not depend on the number of cores.
BLOCK = 2_500
DAY_S = 86_400.0
# Losses that are to be expected in one run; with more, a unit is wrong as a rule, and the question
# is refused.
CHANGES_MAX = 200_000


@dataclass(frozen=True)
class Outcomes:
    """The outcome of every run, in seconds unless its name has another unit.

    useful + save + lost + restart + wait = end. Runs that neither finished nor spent their retries
    nor reached the time limit of their last start were cut off at the horizon.
    """

    end_s: Floats
    #: training as on all nodes; with fewer, a second of training counts less
    work_s: Floats
    useful_s: Floats
    save_s: Floats
    lost_s: Floats
    lost_steps: Floats
    restart_s: Floats
    wait_s: Floats
    #: the paid node-seconds
    node_s: Floats
    restarts: Floats
    failures: Floats
    preemptions: Floats
    start_failures: Floats
    noticed: Floats
    rescued: Floats
    #: it reached its last step
    finished: Floats
    #: it ran out of retries
    spent: Floats
    #: it was ended by the time limit of a start, and not queued again
    timed_out: Floats
    #: the times that it was queued again at that limit
    requeues: Floats

    def __len__(self) -> int:
        return len(self.end_s)


def simulate(
    question: Question,
    *,
    runs: int,
    seed: int,
    horizon_s: float | None = None,
    jobs: int = 2,
    spares_starts: bool = False,
) -> Outcomes:
    """Return the outcomes of `runs` runs of a job with costs.

    With `spares_starts` a loss takes no node of a group that is being set up.
    Raises `UsageError` if the market changes too often, or the training is too
    long, for a result.
    """
    timed_questions = [(question, horizon_s or default_horizon_s(question))]
    return _simulate_blocks(
        timed_questions, runs=runs, seed=seed, jobs=jobs, spares_starts=spares_starts
    )[0]


def simulate_each(
    questions: Sequence[Question],
    *,
    runs: int,
    seed: int,
    jobs: int = 2,
    to_deadline: bool = False,
) -> list[Outcomes]:
    """Simulate several questions, each on the same draws; with `to_deadline` not beyond it.

    Questions with the same market and number of nodes get the very same losses.
    """
    timed_questions = [(question, default_horizon_s(question)) for question in questions]
    if to_deadline:
        timed_questions = [
            (timed_question, min(s, (timed_question.goal.deadline_h or s) * HOUR_S))
            for timed_question, s in timed_questions
        ]
    return _simulate_blocks(timed_questions, runs=runs, seed=seed, jobs=jobs)


def _simulate_blocks(
    timed_questions: Sequence[tuple[Question, float]],
    *,
    runs: int,
    seed: int,
    jobs: int,
    spares_starts: bool = False,
) -> list[Outcomes]:
    """Return the outcomes of each question; blocks run in parallel if that is safe.

    A process with threads is not forked: a lock that a thread holds would stay locked.
    """
    groups: dict[object, list[int]] = {}
    for n, (question, horizon_s) in enumerate(timed_questions):
        _check_loss_count(question, horizon_s)
        groups.setdefault(_find_group_key(question), []).append(n)
    sizes = [min(BLOCK, runs - start) for start in range(0, runs, BLOCK)]
    seeds = np.random.SeedSequence(seed).spawn(len(sizes))
    parts = []
    for indexes in groups.values():
        group = [timed_questions[n] for n in indexes]
        parts += [
            (indexes, (group, *item, spares_starts)) for item in zip(sizes, seeds, strict=True)
        ]
    # Processes, since threads handed Python's lock to and fro, and two took longer than one.
    if min(jobs, len(parts)) < 2 or threading.active_count() > 1:  # noqa: PLR2004
        blocks = [_simulate_block(part) for _, part in parts]
    else:
        processes = ProcessPoolExecutor(min(jobs, len(parts)), mp_context=get_context("fork"))
        with processes as pool:
            blocks = list(pool.map(_simulate_block, (part for _, part in parts)))
    question_blocks: list[list[Outcomes]] = [[] for _ in timed_questions]
    for (indexes, _), block in zip(parts, blocks, strict=True):
        for n, outcomes in zip(indexes, block, strict=True):
            question_blocks[n].append(outcomes)
    return [_join_outcomes(item) for item in question_blocks]


def _pool(question: Question) -> tuple[Market, int, int]:
    """Return the market, the nodes that may be lost, and those that may not.

    The first two determine all losses and returns.
    """
    plain = {"name": "", "source": "", "notice": LossNotice(), "price_ratio": 1.0, "doubt": None}
    job = question.job
    return question.market.model_copy(update=plain), job.spot_nodes, job.on_demand_nodes


def _find_group_key(question: Question) -> object:
    """Return a key; questions with the same key are simulated side by side."""
    # Memoryless pools need one draw for the time of a change and one for its kind, whatever their
    # size, so any number of them can share the draws, if they share the shocks. Engines with a
    # clock for each node cannot: questions go side by side there only on the very same pool.
    is_simple = isinstance(question.market.lifetime, Exponential)
    return question.market.shock if is_simple else _pool(question)


def default_horizon_s(question: Question) -> float:
    """Return the horizon of a run: 1.5 times the deadline, or ten times the work.

    A training that takes a hundred times its work does not end, for any deadline, if it does not
    take as long without any loss: time limits, saves and queues count as three times that.
    """
    deadline_h, min_s = question.goal.deadline_h, lossless_s(question)
    needed_s = 3 * min_s if math.isfinite(min_s) else 0.0
    if deadline_h is None:
        return max(10 * question.work_s, needed_s) + DAY_S
    return min(1.5 * deadline_h * HOUR_S, max(100 * question.work_s, needed_s) + DAY_S)


_Part: TypeAlias = tuple[Sequence[tuple[Question, float]], int, np.random.SeedSequence, bool]


def _simulate_block(part: _Part) -> list[Outcomes]:
    """Simulate some runs of questions side by side."""
    timed_questions, runs, seed, spares_starts = part
    questions, horizons_s = zip(*timed_questions, strict=True)
    # `spawn` has a counter: a copy has the same children, even if the seed was used before.
    seed = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)
    # The market has a generator of its own: what a job does draws nothing from it, so that two
    # settings meet the very same losses, and their difference is no luck.
    market_bits, job_bits = (np.random.SFC64(s) for s in seed.spawn(2))
    pools = list(dict.fromkeys(map(_pool, questions)))
    spot_pools = [(market, nodes) for market, nodes, _ in pools]
    pool = pools_capacity(spot_pools, runs, np.random.Generator(market_bits))
    on_demand_nodes = np.repeat([on_demand for *_, on_demand in pools], runs)
    pool_of = [pools.index(_pool(question)) for question in questions]
    state = SimulatedRuns(
        questions,
        pool.up + on_demand_nodes,
        horizons_s,
        pool_of=pool_of,
        spares_starts=spares_starts,
    )
    while True:
        state.advance(pool.next_s)
        if not state.going:
            break
        lost = pool.change()
        state.apply_change(pool.up + on_demand_nodes, lost, job_bits.random_raw(runs), pool.cut)
    columns = {f.name: getattr(state, f.name).astype(np.float64) for f in fields(Outcomes)}
    return [
        Outcomes(**{name: column[n * runs : (n + 1) * runs] for name, column in columns.items()})
        for n in range(len(timed_questions))
    ]


def _join_outcomes(blocks: list[Outcomes]) -> Outcomes:
    names = [f.name for f in fields(Outcomes)]
    return Outcomes(**{n: np.concatenate([getattr(b, n) for b in blocks]) for n in names})


def _check_loss_count(question: Question, horizon_s: float) -> None:
    nodes = question.market.size(question.job.spot_nodes)
    changes = horizon_s / max(1e-9, loss_interval_s(question.market, nodes))
    requeues = question.settings.limit_requeues
    starts = horizon_s / question.settings.start_limit_s
    if min(starts, math.inf if requeues < 0 else requeues) > CHANGES_MAX:
        raise UsageError(
            f"{starts:.0f} starts fit into {horizon_s / DAY_S:.0f} days: more than can be "
            "simulated",
            "Is the unit right? start_limit_h counts hours.",
        )
    if changes > CHANGES_MAX:
        raise UsageError(
            f"{changes:.0f} losses are to be expected until {horizon_s / DAY_S:.0f} days: "
            "more than can be simulated",
            "Are the units right? mtbf_h counts hours per node, *_s seconds.",
        )


@dataclass(frozen=True)
class Forecast:
    """Distributions and probabilities of the runs of one question."""

    runs: int
    goodput: Quantiles
    #: over all runs, infinite for those that did not finish
    finish_h: Quantiles
    #: the time after which runs that had not ended were cut off; None if none was
    watched_h: float | None
    restarts: Quantiles
    lost_steps: Quantiles
    lost_share: float
    #: the price of a run as a share of the same training on on-demand nodes
    cost: Quantiles
    finishes: Chance
    spent: Chance
    #: runs that the time limit of a start ended, and that were not queued again
    timed_out: Chance
    #: the times that a run is queued again at that limit
    requeues: Quantiles
    #: the runs that each budget of retries ended
    ends: dict[str, Chance]
    #: the retries of each budget that suffice, for runs that were not ended by it
    retries: dict[str, int]
    cut_off: Chance
    meets: dict[str, Chance]
    #: the strictest goals that enough runs still meet
    borders: dict[str, float]
    rescued: Chance
    #: the shares of all runs' time by cause
    ledger: dict[str, float]
    mean_goodput: float


def goodput(outcomes: Outcomes) -> Floats:
    """Return each run's share of time that became surviving work on all nodes."""
    return outcomes.work_s / np.maximum(outcomes.end_s, 1e-9)


def lossless_s(question: Question) -> float:
    """Return the seconds that the training takes with all its checkpoints and no loss.

    They are infinite if the time limit of a start lets none get it further.
    """
    course = plan_lossless_course(question)
    return math.inf if course is None else course.duration_s


def find_reference_node_s(question: Question) -> float:
    """Return the node-seconds of the same training with no loss, and saved once, at its end.

    It does not depend on the interval: too frequent saves count as a cost.
    """
    costs = question.required_costs
    duration_s = question.work_s + question.stop_s + question.commit_delay_s + costs.begin_s
    return duration_s * question.job.nodes


def build_forecast(question: Question, outcomes: Outcomes) -> Forecast:
    """Return the forecast by the outcomes of all runs."""
    good, done, spent = goodput(outcomes), outcomes.finished > 0, outcomes.spent > 0
    timed_out = outcomes.timed_out > 0
    cut_off, price = ~done & ~spent & ~timed_out, find_price_shares(question, outcomes)
    finish_h = np.where(done, outcomes.end_s / 3600, np.inf)
    all_s, worked_s = float(outcomes.end_s.sum()), float(outcomes.work_s.sum())
    parts = ("useful", "save", "lost", "restart", "wait")
    shares = {part: float(getattr(outcomes, f"{part}_s").sum()) / all_s for part in parts}
    shares["shrunk"] = shares["useful"] - worked_s / all_s
    shares["useful"] -= shares["shrunk"]
    return Forecast(
        runs=len(outcomes),
        goodput=spread(good),
        finish_h=spread(finish_h),
        watched_h=float(outcomes.end_s[cut_off].max()) / 3600 if cut_off.any() else None,
        restarts=spread(outcomes.restarts),
        lost_steps=spread(outcomes.lost_steps),
        lost_share=shares["lost"],
        cost=spread(price),
        finishes=_share(done),
        spent=_share(spent),
        timed_out=_share(timed_out),
        requeues=spread(outcomes.requeues),
        ends={name: _share(runs) for name, runs in _split_ended_runs(question, outcomes)},
        retries=count_needed_retries(question, outcomes),
        cut_off=_share(cut_off),
        meets={name: _share(runs) for name, runs in met_goals(question, outcomes).items()},
        borders={
            "deadline": _find_quantile(finish_h, question.goal.confidence),
            "budget": _find_quantile(np.where(done, price, np.inf), question.goal.confidence),
            "goodput": -_find_quantile(np.where(done, -good, 0.0), question.goal.confidence),
        },
        rescued=chance(int(outcomes.rescued.sum()), int(outcomes.noticed.sum())),
        ledger=shares,
        mean_goodput=worked_s / all_s,
    )


def _share(runs: Flags) -> Chance:
    return chance(int(runs.sum()), len(runs))


def _split_ended_runs(question: Question, outcomes: Outcomes) -> Iterator[tuple[str, Flags]]:
    """Yield each budget of retries, and the runs that it ended."""
    remaining_runs = outcomes.spent > 0
    for name, limit, used in charged_budgets(question, outcomes):
        ended_runs = remaining_runs & (used > limit) & (limit >= 0)
        yield name, ended_runs
        remaining_runs = remaining_runs & ~ended_runs
    yield question.settings.wait_budget, remaining_runs


def charged_budgets(question: Question, outcomes: Outcomes) -> Iterator[tuple[str, int, Floats]]:
    """Yield each budget of a running group's losses, what it bears, and the use of each run."""
    settings = question.settings
    used_up = outcomes.failures // settings.losses_per_start
    used = (outcomes.failures, outcomes.preemptions + used_up)
    budgets = zip(settings.budgets, settings.limits, used, strict=False)
    has_agents = settings.has_agents
    yield from (budget for budget in budgets if has_agents or budget[0] != "max_restarts")


# The share of runs for which retries that are advised must suffice.
SUFFICIENT = 0.999
SLACK = 1.2  # the factor on the retries that were needed: a market may be worse than its fit
#: the most retries that are advised as a number: above them a count is no setting but a guess
MOST_RETRIES = 10


def count_needed_retries(question: Question, outcomes: Outcomes) -> dict[str, int]:
    """Return, for each budget, the retries that suffice in 999 of 1000 runs, and some beside."""
    needed = {
        name: math.ceil(float(np.quantile(used, SUFFICIENT)))
        for name, _, used in charged_budgets(question, outcomes)
    }
    return {name: math.ceil(SLACK * count) + 1 if count else 0 for name, count in needed.items()}


def _find_quantile(values: Floats, share: float) -> float:
    """Return the least value that so large a share of the runs does not exceed."""
    return float(np.quantile(values, share, method="inverted_cdf"))


def find_price_shares(question: Question, outcomes: Outcomes) -> Floats:
    """Return each run's price as a share of the on-demand price of the whole training.

    The price of a run that did not finish is divided by the part of the work that it
    did, and is infinite if it did none.
    """
    done_share = outcomes.work_s / question.work_s
    always_s = question.job.on_demand_nodes * outcomes.end_s
    paid_s = question.market.price_ratio * (outcomes.node_s - always_s) + always_s
    paid = paid_s / find_reference_node_s(question)
    return np.where(done_share > 0, paid / np.maximum(done_share, 1e-12), np.inf)


def met_goals(question: Question, outcomes: Outcomes) -> dict[str, Flags]:
    """Return, for each goal, the runs that meet it; to finish is always a goal."""
    goal, done = question.goal, outcomes.finished > 0
    met = {"finish": done}
    if goal.deadline_h is not None:
        met["deadline"] = done & (outcomes.end_s <= goal.deadline_h * 3600)
    if goal.budget is not None:
        met["budget"] = done & (find_price_shares(question, outcomes) <= goal.budget)
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
    def _cache(self) -> dict[str, Outcomes]:
        """Outcomes of the questions that were tried, by their JSON."""
        return {}

    def simulate(self, question: Question) -> Outcomes:
        """Return the outcomes of enough runs of a question: more would not change the answer."""
        if self.runs > ENOUGH:
            first = simulate(question, runs=ENOUGH, seed=self.seed, jobs=self.jobs)
            if _is_clear(question, first):
                return first
        return simulate(question, runs=self.runs, seed=self.seed, jobs=self.jobs)

    def try_each(self, questions: Sequence[Question]) -> list[Outcomes]:
        """Return the outcomes of fewer runs of each question, on the same draws, from the cache."""
        runs = min(self.runs, max(LEAST, self.runs // FEWER))
        keys = [question.model_dump_json() for question in questions]
        new_questions = {
            key: new_question
            for key, new_question in zip(keys, questions, strict=True)
            if key not in self._cache
        }
        new_outcomes = simulate_each(
            list(new_questions.values()),
            runs=runs,
            seed=self.seed,
            jobs=self.jobs,
            to_deadline=True,
        )
        self._cache.update(zip(new_questions, new_outcomes, strict=True))
        return [self._cache[key] for key in keys]


def _is_clear(question: Question, outcomes: Outcomes) -> bool:
    """Return whether every goal is met, or missed, by a wide margin."""
    need = question.goal.confidence
    error = math.sqrt(need * (1 - need) / len(outcomes))
    met = met_goals(question, outcomes).values()
    return all(abs(float(flags.mean()) - need) > _BY_FAR * error for flags in met)
