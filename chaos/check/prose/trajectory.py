"""Sentences of findings about the numbers and the state of training, beside the baseline's."""

from chaos.check.divergence import describe_difference
from chaos.check.kinds.trajectory import (
    NumberFacts,
    NumbersDiffer,
    NumbersDifferAtResume,
    NumbersDifferEarlier,
    NumbersDifferLater,
    StateDiffersAlone,
)
from chaos.check.prose.registry import describes
from chaos.check.prose.state import describe_part_value
from chaos.model.events.state import find_group
from chaos.model.launcher_facts import LauncherWords
from chaos.wording import describe_ranks


@describes(
    NumbersDifferAtResume,
    usual_cause=(
        "Something was not saved or loaded: a generator, a place in the data, a variable of "
        "the loop."
    ),
    remedy=(
        "Save all that the script changes while it trains; `chaos explain` looks for the value."
    ),
)
def _describe_numbers_at_resume(facts: NumbersDifferAtResume, _: LauncherWords) -> str:
    return _describe_numbers(facts)


@describes(
    NumbersDifferLater,
    usual_cause="What was lost is used once an epoch: a schedule, a seed, a best value.",
    remedy="Save what the script sets once an epoch; `chaos explain` looks for the value.",
)
def _describe_numbers_later(facts: NumbersDifferLater, _: LauncherWords) -> str:
    return _describe_numbers(facts)


@describes(
    NumbersDifferEarlier,
    usual_cause="An earlier epoch was reported again, or a file is another run's.",
    remedy="Look at what the script reports and reads before its first step.",
)
def _describe_numbers_earlier(facts: NumbersDifferEarlier, _: LauncherWords) -> str:
    return _describe_numbers(facts)


@describes(
    NumbersDiffer,
    usual_cause="The job went on after a fault without beginning again.",
    remedy="Look at what it skips, tries again or catches.",
)
def _describe_other_numbers(facts: NumbersDiffer, _: LauncherWords) -> str:
    return _describe_numbers(facts)


def _describe_numbers(facts: NumberFacts) -> str:
    pair = facts.first_pair
    is_metric = facts.number_type == "metric"
    value_text = f"metric `{pair.value_name}`" if is_metric else pair.value_name
    rank_text = "" if facts.number_type == "mean loss" else f" (rank {pair.rank})"
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
    usual_cause=(
        "The part is computed beside training, such as an average, and was not saved or loaded."
    ),
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
