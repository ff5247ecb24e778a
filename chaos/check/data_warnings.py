"""Warnings about a job's data, from any whole run: no broken promise, but worth knowing.

All other checks compare with the baseline, which has the same flaw.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from chaos.check.attempt import Step
from chaos.check.inputs import count_samples
from chaos.check.lineage import Lineage

# Epochs that are needed to see whether their order repeats.
SEVERAL = 2

Epoch: TypeAlias = dict[int, Sequence[Step]]  # by rank


def data_warnings(course: Lineage) -> Iterator[str]:
    """Yield warnings from the lineage of a whole run; none where some inputs were not seen."""
    if any(step.inputs is None for step in course.all_steps()):
        return
    epochs = _epochs(course)
    if len(epochs) >= SEVERAL and _has_one_order(epochs):
        yield (
            "every epoch is trained in one and the same order, without any fault as well: if the "
            "data is to be shuffled, the sampler's `set_epoch` is not called, or its generator "
            "begins anew"
        )
    if _has_one_share(epochs):
        yield (
            "all ranks train the same samples, without any fault as well: unless they share one "
            "model's work, the data is not shared out, as by a `DistributedSampler`"
        )


def _epochs(course: Lineage) -> list[Epoch]:
    """Return the finished epochs: those that were reported, or all where none was."""
    found: dict[int, Epoch] = {}
    for (rank, epoch), steps in sorted(course.steps.items()):
        found.setdefault(epoch, {})[rank] = steps
    ended = {commit.epoch for commit in course.commits}
    return [steps for epoch, steps in found.items() if epoch in ended or not ended]


def _has_one_order(epochs: Sequence[Epoch]) -> bool:
    """Return whether each rank had equal inputs in every epoch, and not one batch at every step."""
    orders = [{rank: _digests(steps) for rank, steps in of.items()} for of in epochs]
    differs_within = any(len(set(order)) > 1 for order in orders[0].values())
    return differs_within and all(of == orders[0] for of in orders)


def _has_one_share(epochs: Sequence[Epoch]) -> bool:
    """Return whether all ranks had equal inputs in each epoch, and more than one sample."""
    if not epochs or any(len(of) < SEVERAL for of in epochs):
        return False
    return all(map(_is_shared, epochs)) and _varies(epochs)


def _is_shared(of: Epoch) -> bool:
    first, *others = of.values()
    if all(_digests(steps) == _digests(first) for steps in others):
        return True
    due = count_samples(first)
    return due is not None and all(count_samples(steps) == due for steps in others)


def _varies(epochs: Sequence[Epoch]) -> bool:
    steps = [step for of in epochs for one in of.values() for step in one]
    samples = count_samples(steps)
    return len(set(_digests(steps)) if samples is None else samples) > 1


def _digests(steps: Sequence[Step]) -> list[str]:
    return [step.inputs.digest for step in steps if step.inputs is not None]
