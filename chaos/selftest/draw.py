"""What is run: for every job of the zoo some variants, and for each some places to strike."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.model.plan import Op
from chaos.model.trigger import AtMoment, AtStep, Trigger
from chaos.zoo.catalogue import CONTROLS, Exhibit
from chaos.zoo.layout import Layout, Variant

WORKERS = 2
# A variant costs a clean run and a fresh process; a further strike at it costs neither.
BUG_RUNS_PER_VARIANT = 5
CONTROL_RUNS_PER_VARIANT = 10
STEPS, CADENCE, BATCH_SIZES = (4, 8), (2, 3), (8, 16)
# One run of a bug in so many is anywhere in the job; the others where the bug can show.
RUNS_PER_ANY_PLACE, TRIES = 5, 200
NODES_LOST = 0.2
# Long enough to be noticed between two of Ray's polls, short enough for a job of 0.1 seconds.
NOTICE_S = (0.02, 0.04)

Ops: TypeAlias = tuple[Op, ...]


@dataclass(frozen=True)
class Case:
    """One job with its choices made, and the strikes at it, each a run of its own."""

    exhibit: Exhibit
    variant: Variant
    strikes: tuple[Ops, ...]


def cases(
    exhibits: Sequence[Exhibit], *, seed: int, runs_per_bug: int, controls: int
) -> tuple[Case, ...]:
    """Give all cases; what is drawn for a job depends on the seed and the job alone.

    `controls` runs are shared out among all controls, chosen or not.
    """
    found: list[Case] = []
    for exhibit in exhibits:
        if exhibit.is_control:
            runs = _share(controls, CONTROLS.index(exhibit))
            found += _of(exhibit, seed=seed, runs=runs, per_variant=CONTROL_RUNS_PER_VARIANT)
        else:
            found += _of(exhibit, seed=seed, runs=runs_per_bug, per_variant=BUG_RUNS_PER_VARIANT)
    return tuple(found)


def sample(drawn: Sequence[Case]) -> tuple[Case, ...]:
    """Give one run per job: of a bug the first that can reveal it, of a control the first."""
    found: dict[str, Case] = {}
    for case in drawn:
        for ops in case.strikes:
            shows = case.exhibit.is_control or case.exhibit.is_revealed_by(case.variant, ops)
            if shows and case.exhibit.id not in found:
                found[case.exhibit.id] = Case(case.exhibit, case.variant, (ops,))
    return tuple(found.values())


def _share(controls: int, place: int) -> int:
    whole, rest = divmod(controls, len(CONTROLS))
    return whole + (place < rest)


def _of(exhibit: Exhibit, *, seed: int, runs: int, per_variant: int) -> Iterator[Case]:
    draws = random.Random(f"{seed}:{exhibit.id}")  # noqa: S311 (repeatable is the point)
    for first in range(0, runs, per_variant):
        chosen = _variant(exhibit, draws)
        numbers = range(first, min(runs, first + per_variant))
        strike = _control_ops if exhibit.is_control else _bug_ops
        yield Case(exhibit, chosen, tuple(strike(exhibit, chosen, draws, n) for n in numbers))


def _variant(exhibit: Exhibit, draws: random.Random) -> Variant:
    return Variant(
        epochs=draws.randint(*exhibit.epochs),
        steps_per_epoch=draws.randint(*STEPS),
        cadence=draws.choice(CADENCE),
        seed=draws.randrange(1000),
        batch_size=draws.choice(BATCH_SIZES),
        optimizer=draws.choice(("adam", "sgd")),
    )


def _bug_ops(exhibit: Exhibit, variant: Variant, draws: random.Random, number: int) -> Ops:
    """Give one loss of a worker, or of its node; most can reveal the bug, some need not."""
    course = exhibit.layout(variant)
    ops = _killed_or_lost(exhibit, course, draws)
    if number % RUNS_PER_ANY_PLACE == 0:
        return ops
    for _ in range(TRIES):
        if exhibit.is_revealed_by(variant, ops):
            break
        ops = _killed_or_lost(exhibit, course, draws)
    return ops


def _killed_or_lost(exhibit: Exhibit, course: Layout, draws: random.Random) -> Ops:
    place = _place(exhibit, course, draws)
    if draws.random() < NODES_LOST:
        return (Op(index=0, at=place, kill_node=KillNode()),)
    return (Op(index=0, at=place, kill_worker=KillWorker()),)


def _control_ops(exhibit: Exhibit, variant: Variant, draws: random.Random, number: int) -> Ops:
    """Give a strike of each kind in turn, so that all kinds meet every control."""
    course = exhibit.layout(variant)
    strike = list(CONTROL_STRIKES.values())[number % len(CONTROL_STRIKES)]
    return strike(lambda: _place(exhibit, course, draws), course, draws)


Draw: TypeAlias = Callable[[], Trigger]


def _killed(place: Draw, course: Layout, draws: random.Random) -> Ops:
    del course
    how = draws.choice((KillWorker(), KillWorker(signal="TERM"), KillWorker(via="ray")))
    return (Op(index=0, at=place(), kill_worker=how),)


def _killed_beside(place: Draw, course: Layout, draws: random.Random) -> Ops:
    """Kill the rank that does not stand at the place."""
    del course, draws
    at = place()
    assert at.rank is not None
    return (Op(index=0, at=at, kill_worker=KillWorker(rank=(at.rank + 1) % WORKERS)),)


def _killed_twice(place: Draw, course: Layout, draws: random.Random) -> Ops:
    """Kill at two places of one rank in the order in which it passes them."""
    del draws
    first, second = place(), place()
    while second.rank != first.rank or second == first:
        second = place()
    return tuple(
        Op(index=n, at=at, kill_worker=KillWorker())
        for n, at in enumerate(sorted((first, second), key=course.passed))
    )


def _killed_again(place: Draw, course: Layout, draws: random.Random) -> Ops:
    """Kill at the same step of two attempts: an op fires once, so the second waits."""
    del place
    at = _step(course, draws)
    return tuple(Op(index=n, at=at, kill_worker=KillWorker()) for n in range(2))


def _node_lost(place: Draw, course: Layout, draws: random.Random) -> Ops:
    del course, draws
    return (Op(index=0, at=place(), kill_node=KillNode()),)


def _preempted(place: Draw, course: Layout, draws: random.Random) -> Ops:
    """Give notice in the first half of training: it must run out before training is over."""
    del place
    at = _step(course, draws, epochs=max(1, course.reports // 2))
    notice = PreemptNode(notice_s=round(draws.uniform(*NOTICE_S), 3))
    return (Op(index=0, at=at, preempt_node=notice),)


CONTROL_STRIKES: Mapping[str, Callable[[Draw, Layout, random.Random], Ops]] = {
    "killed": _killed,
    "the other rank killed": _killed_beside,
    "killed twice": _killed_twice,
    "killed again at the same step": _killed_again,
    "node lost": _node_lost,
    "node preempted": _preempted,
}


def _place(exhibit: Exhibit, course: Layout, draws: random.Random) -> Trigger:
    place = draws.choice(exhibit.places)
    if place == "step":
        return _step(course, draws)
    epoch = draws.randrange(course.reports)
    if place == "saving" and course.saves == "in its own directory":
        epoch += 1  # it saves what it has reported, and the report has begun the next epoch
    ranks = exhibit.savers if place == "saving" else range(WORKERS)
    return AtMoment(epoch=epoch, moment=place, rank=draws.choice(ranks))


def _step(course: Layout, draws: random.Random, *, epochs: int | None = None) -> AtStep:
    epoch = draws.randrange(epochs or course.reports)
    step = draws.randint(1, course.steps[epoch])
    return AtStep(epoch=epoch, step=step, rank=draws.randrange(WORKERS))
