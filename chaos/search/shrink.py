"""The smallest plan that still fails: no fault of it can be left out, be plainer or come earlier.

Hypothesis shrinks the choices by which a plan was drawn, in hundreds of tries that cost it nothing;
here each is a run of seconds. A fault that is not needed costs one run, and a place as many as the
list of the job's places can be halved.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from chaos.audit.place_groups import order_of
from chaos.faults.kill_worker import KillWorker
from chaos.model.places import Place
from chaos.model.plan import Op
from chaos.model.trigger import AtMoment, AtRecovery, AtStep, Trigger
from chaos.search.plans import JobPlaces

Ops: TypeAlias = tuple[Op, ...]
Fails: TypeAlias = Callable[[Ops], bool]


def shrunk(ops: Ops, fails: Fails, places: JobPlaces, kinds: Sequence[str] | None = None) -> Ops:
    """Return a plan that fails, and of which no smaller neighbour does.

    `ops` fails; `fails` runs a plan. Only faults of `kinds` are put in, if they are given.
    """
    may_kill = kinds is None or "kill_worker" in kinds
    while True:
        before = ops
        ops = _fewer(ops, fails)
        ops = _plainer(ops, fails) if may_kill else ops
        ops = _earlier(ops, fails, places)
        if ops == before:
            return ops


def _fewer(ops: Ops, fails: Fails) -> Ops:
    """Leave out one fault after the other, the last first."""
    for number in reversed(range(len(ops))):
        if number < len(ops) and (fewer := _without(ops, number)) and fails(fewer):
            ops = fewer
    return ops


def _plainer(ops: Ops, fails: Fails) -> Ops:
    """Kill a worker where another fault was, at a step where it was at a moment."""
    for number in range(len(ops)):
        op = ops[number]  # of the plan as it is by now: another place changes the order
        for at in (_plain_place(op), op.at):
            plain = Op(index=op.index, at=at, kill_worker=KillWorker())
            if plain == op:
                break
            if fails(changed := _with(ops, number, plain)):
                ops = changed
                break
    return ops


def _plain_place(op: Op) -> Trigger:
    """Return the plainest place near that of an op: for a moment, the first step of its epoch."""
    at = op.at
    if isinstance(at, AtRecovery):
        return at.model_copy(update={"stage": "start"})
    return AtStep(epoch=at.epoch, step=1, rank=at.rank) if isinstance(at, AtMoment) else at


def _earlier(ops: Ops, fails: Fails, places: JobPlaces) -> Ops:
    """Move each fault to the earliest place of its kind, the first fault first."""
    for number in range(len(ops)):
        ops = _moved(ops, number, fails, places)
    return ops


def _moved(ops: Ops, number: int, fails: Fails, places: JobPlaces) -> Ops:
    op = ops[number]
    before = [at for at in _like(op.at, places) if _place(at) < _place(op.at)]
    if not before or op.fault.family == "storage" or op.fault.is_announced:
        return ops  # those have places of their own (see `chaos.search.plans`)

    def plan(index: int) -> Ops:
        return _with(ops, number, op.model_copy(update={"at": before[index]}))

    first, right = len(before), -1  # it fails at `first`, and not at `right`
    # A run takes seconds, so the two likeliest answers are asked for before the halving begins.
    for index in (first - 1, 0):  # mostly it can come no earlier, or anywhere
        if right < index < first:
            first, right = (index, right) if fails(plan(index)) else (first, index)
    while first - right > 1:
        middle = (first + right) // 2
        first, right = (middle, right) if fails(plan(middle)) else (first, middle)
    return ops if first == len(before) else plan(first)


def _like(at: Trigger, places: JobPlaces) -> list[AtStep | AtMoment]:
    """Return the places of a job of the same kind and rank, in the order of training."""
    rank = at.rank
    if isinstance(at, AtMoment):
        points = sorted(epoch for epoch, of in places.moments.get(at.moment, ()) if of == rank)
        return [at.model_copy(update={"epoch": epoch}) for epoch in points]
    if not isinstance(at, AtStep):
        return []
    counts = [(epoch, count) for (epoch, of), count in sorted(places.steps.items()) if of == rank]
    steps = [(epoch, step) for epoch, count in counts for step in range(1, count + 1)]
    return [AtStep(epoch=epoch, step=step, rank=rank) for epoch, step in steps]


def _place(at: Trigger) -> Place:
    return Place(at.epoch, at.step if isinstance(at, AtStep) else 0)


def _without(ops: Ops, number: int) -> Ops:
    """Return a plan without one fault, and without those of the restart that it caused."""
    gone = {number}
    for other, op in enumerate(ops):
        if isinstance(op.at, AtRecovery) and op.at.recovering_from in gone:
            gone.add(other)
    return _numbered([(old, op) for old, op in enumerate(ops) if old not in gone])


def _with(ops: Ops, number: int, changed: Op) -> Ops:
    """Return a plan in the order of training, in which one fault is another."""
    swapped = [changed if old == number else op for old, op in enumerate(ops)]
    order: dict[int, tuple[int, ...]] = {}
    for old, op in enumerate(swapped):  # what hits a restart comes after its cause
        at = op.at
        cause = order[at.recovering_from] if isinstance(at, AtRecovery) else None
        # A fault that moves changes the order, and the others keep their causes. The next fault was
        # put in another's place once, which lost a fault without a word.
        order[old] = order_of(op) if cause is None else (*cause, old)
    return _numbered(sorted(enumerate(swapped), key=lambda pair: order[pair[0]]))


def _numbered(ops: list[tuple[int, Op]]) -> Ops:
    """Return ops, given with their old numbers, with new ones."""
    new = {old: number for number, (old, _) in enumerate(ops)}
    found = []
    for old, op in ops:
        at = op.at
        if isinstance(at, AtRecovery):
            at = at.model_copy(update={"recovering_from": new[at.recovering_from]})
        found.append(op.model_copy(update={"index": new[old], "at": at}))
    return tuple(found)
