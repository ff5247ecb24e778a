"""The smallest plan that still fails: no fault of it can be left out, be plainer or come earlier.

Hypothesis shrinks the choices by which a plan was drawn, in hundreds of tries that cost it nothing;
here each is a run of seconds. A fault that is not needed costs one run, and a place as many as the
list of the job's places can be halved.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from chaos.audit.site_groups import build_sort_key
from chaos.extensions.lab.search.plans import JobFaultSites
from chaos.faults.kill_worker import KillWorker
from chaos.model.places import TrainingPlace
from chaos.model.plan import Op
from chaos.model.trigger import AtMoment, AtRecovery, AtStep, Trigger

Ops: TypeAlias = tuple[Op, ...]
Fails: TypeAlias = Callable[[Ops], bool]


def shrink_plan(
    ops: Ops, fails: Fails, fault_sites: JobFaultSites, kinds: Sequence[str] | None = None
) -> Ops:
    """Return a plan that fails, and of which no smaller neighbour does.

    `ops` fails; `fails` runs a plan. Only faults of `kinds` are put in, if they are given.
    """
    may_kill = kinds is None or "kill_worker" in kinds
    while True:
        previous_ops = ops
        ops = _drop_faults(ops, fails)
        ops = _simplify_faults(ops, fails) if may_kill else ops
        ops = _advance_faults(ops, fails, fault_sites)
        if ops == previous_ops:
            return ops


def _drop_faults(ops: Ops, fails: Fails) -> Ops:
    """Leave out one fault after the other, the last first."""
    for number in reversed(range(len(ops))):
        if number < len(ops) and (fewer_ops := _remove_fault(ops, number)) and fails(fewer_ops):
            ops = fewer_ops
    return ops


def _simplify_faults(ops: Ops, fails: Fails) -> Ops:
    """Kill a worker where another fault was, at a step where it was at a moment."""
    for number in range(len(ops)):
        op = ops[number]  # of the plan as it is by now: another place changes the order
        for trigger in (_find_plain_trigger(op), op.at):
            plain_op = Op(index=op.index, at=trigger, kill_worker=KillWorker())
            if plain_op == op:
                break
            if fails(changed_ops := _replace_fault(ops, number, plain_op)):
                ops = changed_ops
                break
    return ops


def _find_plain_trigger(op: Op) -> Trigger:
    """Return the plainest place near that of an op: for a moment, the first step of its epoch."""
    trigger = op.at
    if isinstance(trigger, AtRecovery):
        return trigger.replace(stage="start")
    return (
        AtStep(epoch=trigger.epoch, step=1, rank=trigger.rank)
        if isinstance(trigger, AtMoment)
        else trigger
    )


def _advance_faults(ops: Ops, fails: Fails, fault_sites: JobFaultSites) -> Ops:
    """Move each fault to the earliest place of its kind, the first fault first."""
    for number in range(len(ops)):
        ops = _advance_fault(ops, number, fails, fault_sites)
    return ops


def _advance_fault(ops: Ops, number: int, fails: Fails, fault_sites: JobFaultSites) -> Ops:
    op = ops[number]
    earlier_triggers = [
        trigger
        for trigger in _find_similar_triggers(op.at, fault_sites)
        if _locate_trigger(trigger) < _locate_trigger(op.at)
    ]
    if not earlier_triggers or op.fault.family == "storage" or op.fault.is_announced:
        return ops  # those have places of their own (see `chaos.extensions.lab.search.plans`)

    def build_ops(index: int) -> Ops:
        return _replace_fault(ops, number, op.replace(at=earlier_triggers[index]))

    # It fails at the one, and not at the other.
    failing_index, passing_index = len(earlier_triggers), -1
    # A run takes seconds, so the two likeliest answers are asked for before the halving begins.
    for index in (failing_index - 1, 0):  # mostly it can come no earlier, or anywhere
        if passing_index < index < failing_index:
            failing_index, passing_index = (
                (index, passing_index) if fails(build_ops(index)) else (failing_index, index)
            )
    while failing_index - passing_index > 1:
        middle = (failing_index + passing_index) // 2
        failing_index, passing_index = (
            (middle, passing_index) if fails(build_ops(middle)) else (failing_index, middle)
        )
    return ops if failing_index == len(earlier_triggers) else build_ops(failing_index)


def _find_similar_triggers(trigger: Trigger, fault_sites: JobFaultSites) -> list[AtStep | AtMoment]:
    """Return the places of a job of the same kind and rank, in the order of training."""
    rank = trigger.rank
    if isinstance(trigger, AtMoment):
        points = sorted(
            epoch
            for epoch, site_rank in fault_sites.moments.get(trigger.moment, ())
            if site_rank == rank
        )
        return [trigger.replace(epoch=epoch) for epoch in points]
    if not isinstance(trigger, AtStep):
        return []
    counts = [
        (epoch, count)
        for (epoch, site_rank), count in sorted(fault_sites.steps.items())
        if site_rank == rank
    ]
    steps = [(epoch, step) for epoch, count in counts for step in range(1, count + 1)]
    return [AtStep(epoch=epoch, step=step, rank=rank) for epoch, step in steps]


def _locate_trigger(trigger: Trigger) -> TrainingPlace:
    return TrainingPlace(trigger.epoch, trigger.step if isinstance(trigger, AtStep) else 0)


def _remove_fault(ops: Ops, number: int) -> Ops:
    """Return a plan without one fault, and without those of the restart that it caused."""
    removed_indexes = {number}
    for index, op in enumerate(ops):
        if isinstance(op.at, AtRecovery) and op.at.recovering_from in removed_indexes:
            removed_indexes.add(index)
    return _renumber_ops(
        [(old_index, op) for old_index, op in enumerate(ops) if old_index not in removed_indexes]
    )


def _replace_fault(ops: Ops, number: int, new_op: Op) -> Ops:
    """Return a plan in the order of training, in which one fault is another."""
    replaced_ops = [new_op if old_index == number else op for old_index, op in enumerate(ops)]
    order: dict[int, tuple[int, ...]] = {}
    for old_index, op in enumerate(replaced_ops):  # what hits a restart comes after its cause
        trigger = op.at
        cause = order[trigger.recovering_from] if isinstance(trigger, AtRecovery) else None
        # A fault that moves changes the order, and the others keep their causes. The next fault was
        # put in another's place once, which lost a fault without a word.
        order[old_index] = build_sort_key(op) if cause is None else (*cause, old_index)
    return _renumber_ops(sorted(enumerate(replaced_ops), key=lambda pair: order[pair[0]]))


def _renumber_ops(ops: list[tuple[int, Op]]) -> Ops:
    """Return ops, given with their old numbers, with new ones."""
    new_indexes = {old_index: number for number, (old_index, _) in enumerate(ops)}
    renumbered_ops = []
    for old_index, op in ops:
        trigger = op.at
        if isinstance(trigger, AtRecovery):
            trigger = trigger.replace(recovering_from=new_indexes[trigger.recovering_from])
        renumbered_ops.append(op.replace(index=new_indexes[old_index], at=trigger))
    return tuple(renumbered_ops)
