"""Warnings about a job's data, from any whole run: no broken promise, but worth knowing.

All other checks compare with the baseline, which has the same flaw.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from chaos.resume.lineage import Lineage
from chaos.resume.steps import Steps

# Epochs that are needed to see whether their order repeats.
COUNT_MIN = 2

EpochSteps: TypeAlias = Mapping[int, Steps]  # by rank


def find_data_warnings(lineage: Lineage) -> Iterator[str]:
    """Yield warnings from the lineage of a whole run; none where some inputs were not seen."""
    if not all(steps.are_watched for steps in lineage.steps.values()):
        return
    epochs = _select_epochs(lineage)
    if len(epochs) >= COUNT_MIN and _has_repeated_order(epochs):
        yield (
            "every epoch is trained in one and the same order, without any fault as well: if the "
            "data is to be shuffled, the sampler's `set_epoch` is not called, or its generator "
            "begins anew"
        )
    if _has_shared_samples(epochs):
        yield (
            "all ranks train the same samples, without any fault as well: unless they share one "
            "model's work, the data is not shared out, as by a `DistributedSampler`"
        )


def _select_epochs(lineage: Lineage) -> list[EpochSteps]:
    """Return the finished epochs: those that were reported, or all where none was."""
    reported_epochs = {commit.epoch for commit in lineage.commits}
    return [
        steps
        for epoch, steps in lineage.steps_by_epoch.items()
        if epoch in reported_epochs or not reported_epochs
    ]


def _has_repeated_order(epochs: Sequence[EpochSteps]) -> bool:
    """Return whether each rank had equal inputs in every epoch, and not one batch at every step."""
    orders = [{rank: steps.digests for rank, steps in epoch.items()} for epoch in epochs]
    differs_within = any(len(set(order)) > 1 for order in orders[0].values())
    return differs_within and all(epoch == orders[0] for epoch in orders)


def _has_shared_samples(epochs: Sequence[EpochSteps]) -> bool:
    """Return whether all ranks had equal inputs in each epoch, and more than one sample."""
    if not epochs or any(len(epoch) < COUNT_MIN for epoch in epochs):
        return False
    return all(map(_is_shared, epochs)) and _has_several_samples(epochs)


def _is_shared(epoch: EpochSteps) -> bool:
    first_steps, *other_steps = epoch.values()
    if all(steps.digests == first_steps.digests for steps in other_steps):
        return True
    return first_steps.samples is not None and all(
        steps.samples == first_steps.samples for steps in other_steps
    )


def _has_several_samples(epochs: Sequence[EpochSteps]) -> bool:
    all_steps = Steps(
        step for epoch in epochs for rank_steps in epoch.values() for step in rank_steps
    )
    return len(set(all_steps.digests) if all_steps.samples is None else all_steps.samples) > 1
