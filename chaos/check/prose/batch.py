"""Sentences of findings about the size of each batch."""

from chaos.check.kinds.batch import BatchSizeDiffers, RankTotal
from chaos.check.prose.registry import describes
from chaos.model.launcher_facts import LauncherWords
from chaos.wording import describe_ranks, plural


@describes(
    BatchSizeDiffers,
    usual_cause=(
        "Accumulated gradients were lost, a rank is missing, or the loader ran out of samples."
    ),
    remedy=(
        "Save only after `optimizer.step()`; compare ranks and batches of the first step after"
        " the resume."
    ),
)
def _describe_batch_size_differs(facts: BatchSizeDiffers, _: LauncherWords) -> str:
    samples, micro_batches = facts.samples, facts.micro_batches
    run_text, baseline_text = (
        f"{_describe_samples(samples, sample_count)} in "
        f"{_describe_micro_batches(micro_batches, micro_batch_count)}"
        for sample_count, micro_batch_count in (
            (samples.run_total, micro_batches.run_total),
            (samples.baseline_total, micro_batches.baseline_total),
        )
    )
    return (
        f"step {facts.place.step} of epoch {facts.place.epoch} saw {run_text}, in the baseline "
        f"{baseline_text}{_describe_unknown_ranks('samples', samples)}"
        f"{_describe_unknown_ranks('micro-batches', micro_batches)}"
    )


def _describe_samples(total: RankTotal, count: int) -> str:
    return plural(count, "sample") if total.rank_count else "an unknown number of samples"


def _describe_micro_batches(total: RankTotal, count: int) -> str:
    if not total.rank_count:
        return "an unknown number of micro-batches"
    return plural(count, "micro-batch", "micro-batches")


def _describe_unknown_ranks(name: str, total: RankTotal) -> str:
    """Return in words the ranks that are not counted, where others are."""
    if not total.rank_count or not total.unknown_ranks:
        return ""
    return f"; the {name} of {describe_ranks(total.unknown_ranks)} are not known and not counted"
