"""Sentences of findings about the numbers and the state of training, beside the baseline's."""

from chaos.check.divergence import describe_difference
from chaos.check.kinds.trajectory import (
    LossDiffers,
    MeanLossDiffers,
    MetricDiffers,
    NumberFacts,
    PassCountDiffers,
    StateDiffersAlone,
)
from chaos.check.prose.registry import describes
from chaos.check.prose.state import describe_part_value
from chaos.model.events.state import find_group
from chaos.model.launcher import LauncherWords
from chaos.wording import describe_ranks


@describes(
    LossDiffers,
    usual_cause="Something that training depends on was not saved or not loaded, such as a "
    "generator, a place in the data or a variable of the loop.",
    remedy="Look at what the script changes while it trains, and save all of it; "
    "`chaos explain` looks for the value that is missing.",
)
def _describe_loss_differs(facts: LossDiffers, _: LauncherWords) -> str:
    return _describe_numbers(facts, facts.first_pair.value_name)


@describes(
    PassCountDiffers,
    usual_cause="The loop's count of accumulated batches begins anew, or is kept while the "
    "gradients are lost.",
    remedy="Save only after `optimizer.step()`, or save the count and the gradients too.",
)
def _describe_pass_count_differs(facts: PassCountDiffers, _: LauncherWords) -> str:
    return _describe_numbers(facts, facts.first_pair.value_name)


@describes(
    MeanLossDiffers,
    usual_cause="The batch of each rank, the learning rate or the mean over ranks depends on the "
    "number of workers.",
    remedy="Keep the batch of all ranks together the same, or scale the learning rate with it.",
)
def _describe_mean_loss_differs(facts: MeanLossDiffers, _: LauncherWords) -> str:
    return _describe_numbers(facts, facts.first_pair.value_name, has_rank=False)


@describes(
    MetricDiffers,
    usual_cause="The metric is summed up in a variable or a metric object that is not in the "
    "checkpoint, or evaluation draws random numbers.",
    remedy="Save the state of the metric with the model, or compute it anew from whole epochs.",
)
def _describe_metric_differs(facts: MetricDiffers, _: LauncherWords) -> str:
    return _describe_numbers(facts, f"metric `{facts.first_pair.value_name}`")


def _describe_numbers(facts: NumberFacts, value_text: str, *, has_rank: bool = True) -> str:
    pair = facts.first_pair
    rank_text = f" (rank {pair.rank})" if has_rank else ""
    place_text = f"epoch {pair.epoch}" + ("" if pair.step is None else f", step {pair.step}")
    largest_difference = facts.largest_difference
    range_text = f", by up to {largest_difference:.3g}" if largest_difference else ""
    return (
        f"from {place_text} on{rank_text} the {value_text} differs from the baseline's: "
        f"{describe_difference(pair)}; {facts.differing_count} of {facts.compared_count} "
        f"differ{range_text}"
    )


@describes(
    StateDiffersAlone,
    usual_cause="The part is computed beside training, such as an average of the weights, and "
    "was not saved or not loaded.",
    remedy="Save the part with the model, and load it.",
)
def _describe_state_differs_alone(facts: StateDiffersAlone, terms: LauncherWords) -> str:
    group = find_group(facts.part)
    run_text, baseline_text = (
        describe_part_value(value, facts.part, group)
        for value in (facts.value, facts.expected_value)
    )
    values_text = (
        f"{run_text} instead of {baseline_text}"
        if run_text != baseline_text
        else "not the same to the last bit"
    )
    others_text = f", and so do {', '.join(facts.other_parts)}" if facts.other_parts else ""
    return (
        f"from {terms.describe_place(facts.epoch, facts.step, facts.moment)} on "
        f"({describe_ranks(facts.ranks)}) {facts.part} differs from the baseline's although no "
        f"loss and no metric does: {values_text}{others_text}; "
        f"{facts.differing_count} of {facts.compared_count} differ"
    )
