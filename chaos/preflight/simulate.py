"""The simulation of many runs of a job on a market: attempts, commits, notices, waits, budgets.

Time advances from one change of the pool to the next. The job's work in between is
computed, not stepped through, so a month of training takes as many rounds as it has
changes. Runs are in blocks of fixed size, each with generators of its own: memory is
bounded, and the same seed leads to the same bits on any number of cores.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from multiprocessing import get_context
from typing import TypeAlias

import numpy as np

from chaos.errors import UsageError
from chaos.preflight.capacity import HOUR_S, Floats, Memoryless, PoolCapacity, capacity
from chaos.preflight.market import Exponential, Market, Notice, loss_interval_s
from chaos.preflight.question import Question
from chaos.preflight.runs import SimulatedRuns

BLOCK = 2_500
DAY_S = 86_400.0
CHANGES_MAX = 200_000


@dataclass(frozen=True)
class Outcomes:
    """The outcome of every run, in seconds unless its name has another unit.

    useful + save + lost + restart + wait = end. `work_s` counts training as on all
    nodes; with fewer, a second of training counts less. `node_s` are the paid
    node-seconds. `finished`: it reached its last step; `spent`: it ran out of retries.
    Runs that are neither were cut off at the horizon.
    """

    end_s: Floats
    work_s: Floats
    useful_s: Floats
    save_s: Floats
    lost_s: Floats
    lost_steps: Floats
    restart_s: Floats
    wait_s: Floats
    node_s: Floats
    restarts: Floats
    failures: Floats
    preemptions: Floats
    start_failures: Floats
    noticed: Floats
    rescued: Floats
    finished: Floats
    spent: Floats

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
    horizon = horizon_s or default_horizon_s(question)
    asked = [(question, horizon)]
    return _simulated(asked, runs=runs, seed=seed, jobs=jobs, spares_starts=spares_starts)[0]


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
    asked = [(question, default_horizon_s(question)) for question in questions]
    if to_deadline:
        asked = [
            (one, min(until_s, (one.goal.deadline_h or until_s) * HOUR_S)) for one, until_s in asked
        ]
    return _simulated(asked, runs=runs, seed=seed, jobs=jobs, spares_starts=False)


def _simulated(
    asked: Sequence[tuple[Question, float]],
    *,
    runs: int,
    seed: int,
    jobs: int,
    spares_starts: bool,
) -> list[Outcomes]:
    """Return the outcomes of each question; blocks run in parallel if that is safe.

    A process with threads is not forked: a lock that a thread holds would stay locked.
    """
    for question, horizon_s in asked:
        _refuse_endless(question, horizon_s)
    groups: dict[object, list[int]] = {}
    for n, (question, _) in enumerate(asked):
        groups.setdefault(_together(question), []).append(n)
    sizes = [min(BLOCK, runs - start) for start in range(0, runs, BLOCK)]
    seeds = np.random.SeedSequence(seed).spawn(len(sizes))
    parts = []
    for places in groups.values():
        among = [asked[n] for n in places]
        parts += [(places, (among, *one, spares_starts)) for one in zip(sizes, seeds, strict=True)]
    if min(jobs, len(parts)) < 2 or threading.active_count() > 1:  # noqa: PLR2004
        blocks = [_block(part) for _, part in parts]
    else:
        processes = ProcessPoolExecutor(min(jobs, len(parts)), mp_context=get_context("fork"))
        with processes as pool:
            blocks = list(pool.map(_block, (part for _, part in parts)))
    found: dict[int, list[Outcomes]] = {}
    for (places, _), block in zip(parts, blocks, strict=True):
        for n, outcomes in zip(places, block, strict=True):
            found.setdefault(n, []).append(outcomes)
    return [_joined(found[n]) for n in range(len(asked))]


def _pool(question: Question) -> tuple[Market, int]:
    """Return the market and the number of nodes, which determine all losses and returns."""
    plain = {"name": "", "source": "", "notice": Notice(), "price_ratio": 1.0, "doubt": None}
    return question.market.model_copy(update=plain), question.job.pool


def _together(question: Question) -> object:
    """Return a key; questions with the same key are simulated side by side."""
    is_simple = isinstance(question.market.lifetime, Exponential)
    return question.market.shock if is_simple else _pool(question)


def default_horizon_s(question: Question) -> float:
    """Return the horizon of a run: 1.5 times the deadline, or ten times the work.

    A training that takes a hundred times its work does not end, for any deadline.
    """
    deadline_h = question.goal.deadline_h
    if deadline_h is None:
        return 10 * question.work_s + DAY_S
    return min(1.5 * deadline_h * HOUR_S, 100 * question.work_s + DAY_S)


_Part: TypeAlias = tuple[Sequence[tuple[Question, float]], int, np.random.SeedSequence, bool]


def _block(part: _Part) -> list[Outcomes]:
    """Simulate some runs of questions side by side."""
    asked, runs, seed, spares_starts = part
    questions, horizons_s = zip(*asked, strict=True)
    # `spawn` has a counter: a copy has the same children, even if the seed was used before.
    seed = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)
    of_market, of_job = (np.random.SFC64(s) for s in seed.spawn(2))
    pools = list(dict.fromkeys(map(_pool, questions)))
    market, rng = pools[0][0], np.random.Generator(of_market)
    if isinstance(market.lifetime, Exponential):
        pool: PoolCapacity = Memoryless(pools, runs, rng)
    else:
        pool = capacity(*pools[0], runs, rng)
    pool_of = [pools.index(_pool(question)) for question in questions]
    state = SimulatedRuns(
        questions, pool.up, horizons_s, pool_of=pool_of, spares_starts=spares_starts
    )
    while True:
        state.pass_to(pool.next_s)
        if not state.going:
            break
        lost = pool.change()
        state.meet(pool.up, lost, of_job.random_raw(runs), pool.cut)
    columns = {f.name: getattr(state, f.name).astype(np.float64) for f in fields(Outcomes)}
    return [
        Outcomes(**{name: column[n * runs : (n + 1) * runs] for name, column in columns.items()})
        for n in range(len(asked))
    ]


def _joined(blocks: list[Outcomes]) -> Outcomes:
    names = [f.name for f in fields(Outcomes)]
    return Outcomes(**{n: np.concatenate([getattr(b, n) for b in blocks]) for n in names})


def _refuse_endless(question: Question, horizon_s: float) -> None:
    changes = horizon_s / _interval_s(question.market, question.job.pool)
    if changes > CHANGES_MAX:
        raise UsageError(
            f"{changes:.0f} losses are to be expected until {horizon_s / DAY_S:.0f} days: "
            "more than can be simulated",
            "Are the units right? mtbf_h counts hours per node, *_s seconds.",
        )


def _interval_s(market: Market, pool: int) -> float:
    return max(1e-9, loss_interval_s(market, pool))
