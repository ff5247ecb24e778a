"""Warnings about a job's data, from any whole run: no broken promise, but worth knowing.

All other checks compare with the baseline, which has the same flaw.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from chaos.check.lineage import Lineage
from chaos.check.steps import Steps

# Epochs that are needed to see whether their order repeats.
SEVERAL = 2

Epoch: TypeAlias = Mapping[int, Steps]  # by rank


def data_warnings(course: Lineage) -> Iterator[str]:
    """Yield warnings from the lineage of a whole run; none where some inputs were not seen."""
    if not all(steps.are_watched for steps in course.steps.values()):
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
    ended = {commit.epoch for commit in course.commits}
    return [steps for epoch, steps in course.by_epoch.items() if epoch in ended or not ended]


def _has_one_order(epochs: Sequence[Epoch]) -> bool:
    """Return whether each rank had equal inputs in every epoch, and not one batch at every step."""
    orders = [{rank: steps.digests for rank, steps in of.items()} for of in epochs]
    differs_within = any(len(set(order)) > 1 for order in orders[0].values())
    return differs_within and all(of == orders[0] for of in orders)


def _has_one_share(epochs: Sequence[Epoch]) -> bool:
    """Return whether all ranks had equal inputs in each epoch, and more than one sample."""
    if not epochs or any(len(of) < SEVERAL for of in epochs):
        return False
    return all(map(_is_shared, epochs)) and _varies(epochs)


def _is_shared(of: Epoch) -> bool:
    first, *others = of.values()
    if all(steps.digests == first.digests for steps in others):
        return True
    return first.samples is not None and all(steps.samples == first.samples for steps in others)


def _varies(epochs: Sequence[Epoch]) -> bool:
    steps = Steps(step for of in epochs for one in of.values() for step in one)
    return len(set(steps.digests) if steps.samples is None else steps.samples) > 1
