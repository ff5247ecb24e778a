"""Sentences of findings about the data: the order of inputs, and each sample of an epoch once."""

from collections.abc import Callable
from typing import TypeVar

from chaos.check.kinds.samples import (
    EpochSamplesUneven,
    InputsDiffer,
    InputsShifted,
    OrderFacts,
    OtherEpochOrder,
    OtherEpochSamples,
    OtherSamplesDrawn,
    RunSamplesUneven,
    SamplesReordered,
    UnknownSamples,
)
from chaos.check.prose.registry import describes
from chaos.model.launcher_facts import LauncherWords
from chaos.wording import describe_ranks, plural

OrderT = TypeVar("OrderT", bound=OrderFacts)
_ORDER_CHANGES: dict[type[OrderFacts], Callable[[OrderFacts], str]] = {}

# -- sample-order ----------------------------------------------------------------------------------


def _describes_order(
    facts_type: type[OrderT], *, usual_cause: str, remedy: str
) -> Callable[[Callable[[OrderT], str]], Callable[[OrderT], str]]:
    """Return a decorator for what is seen of the order: the beginning of the sentence."""

    def register(describe_change: Callable[[OrderT], str]) -> Callable[[OrderT], str]:
        _ORDER_CHANGES[facts_type] = describe_change  # type: ignore[assignment]
        describes(facts_type, usual_cause=usual_cause, remedy=remedy)(_describe_order)
        return describe_change

    return register


def _describe_order(facts: OrderFacts, _: LauncherWords) -> str:
    change = _ORDER_CHANGES[type(facts)](facts)
    return f"{change}{_guess_reason(facts)}{_describe_order_evidence(facts)}"


def describe_order_without_guess(facts: OrderFacts) -> str:
    """Return the sentence for where the cause was shown: without what is likely."""
    return f"{_ORDER_CHANGES[type(facts)](facts)}{_describe_order_evidence(facts)}"


@_describes_order(
    InputsShifted,
    usual_cause="The place in the data was not saved, or at another moment than the model.",
    remedy=(
        "Save the loader's or sampler's state with the model, and load it before the first batch."
    ),
)
def _describe_inputs_shifted(facts: InputsShifted) -> str:
    direction = "before" if facts.offset < 0 else "after"
    return (
        f"from step {facts.step} of epoch {facts.epoch} on, the inputs are those that the "
        f"baseline has {plural(abs(facts.offset), 'step')} {direction} that place"
    )


@_describes_order(
    UnknownSamples,
    usual_cause=(
        "The place in the data, or the generator that draws or augments, was not restored."
    ),
    remedy="Save the loader's place and the generators of every rank, and load both.",
)
def _describe_unknown_samples(facts: UnknownSamples) -> str:
    restored_text = ", although the shared generators came back"
    return (
        f"from step {facts.step} of epoch {facts.epoch} on, samples are given that the baseline "
        f"never saw{restored_text if facts.has_restored_generators else ''}"
    )


@_describes_order(
    OtherEpochSamples,
    usual_cause="A stream of data, or the generator that draws samples, begins anew.",
    remedy="Save the place in the stream and the generator's state.",
)
def _describe_other_epoch_samples(facts: OtherEpochSamples) -> str:
    return (
        f"epoch {facts.epoch} was given the samples of epoch {facts.source_epoch} instead of its "
        "own"
    )


@_describes_order(
    OtherEpochOrder,
    usual_cause=(
        "`sampler.set_epoch` is not called with the resumed epoch, or the generator begins anew."
    ),
    remedy=(
        "Call `sampler.set_epoch(epoch)` in each epoch; derive the shuffle's seed from it or "
        "save its generator."
    ),
)
def _describe_other_epoch_order(facts: OtherEpochOrder) -> str:
    subject, verb = f"epoch {facts.epoch}", "was"
    if facts.steps is not None:
        steps = facts.steps
        subject, verb = f"steps {steps.first} to {steps.last} of {subject}", "were"
    return f"{subject} {verb} trained in the order of epoch {facts.source_epoch}"


@_describes_order(
    InputsDiffer,
    usual_cause="The order of the data, or what draws it, was not restored.",
    remedy="Save the place in the data and the generators' state, and load both.",
)
def _describe_inputs_differ(facts: InputsDiffer) -> str:
    return f"from step {facts.step} of epoch {facts.epoch} on, the inputs are not the baseline's"


@_describes_order(
    SamplesReordered,
    usual_cause="The generator that shuffles was not restored.",
    remedy="Derive the shuffle's seed from the epoch, or save the generator as the epoch begins.",
)
def _describe_samples_reordered(facts: SamplesReordered) -> str:
    return (
        f"epoch {facts.epoch} was given the baseline's samples in another order, from step "
        f"{facts.step}"
    )


@_describes_order(
    OtherSamplesDrawn,
    usual_cause="The generator that draws the samples was not restored.",
    remedy="Give the sampler a generator of its own, save its state and load it.",
)
def _describe_other_samples_drawn(facts: OtherSamplesDrawn) -> str:
    return (
        f"from step {facts.step} of epoch {facts.epoch} on, other samples are drawn than in the "
        "baseline, where samples repeat before all have come"
    )


def _guess_reason(facts: OrderFacts) -> str:
    """Return the part of the sentence that says what is likely and was not shown; may be empty."""
    match facts:
        case InputsShifted():
            return ": likely what draws or orders them did not come back"
        case UnknownSamples(has_restored_generators=False):
            return (
                ": likely the place in the data, or the generator that draws or augments them, did "
                "not come back"
            )
        case OtherEpochSamples():
            generator_text = f" (or a generator that draws it: {', '.join(facts.generators)})"
            return (
                f": likely the place in the data{generator_text if facts.generators else ''} did "
                "not come back"
            )
        case OtherEpochOrder(has_right_start=True):
            return (
                ": the resume began in the right order; likely the loader of later epochs did not "
                "count it"
            )
        case OtherEpochOrder():
            return (
                ": likely the sampler counts epochs from the resume, or the generator that "
                "shuffles began anew"
            )
        case _:
            return ""


def _describe_order_evidence(facts: OrderFacts) -> str:
    return f" ({describe_ranks(facts.ranks)}){_describe_repeated_samples(facts.repeated_samples)}"


def _describe_repeated_samples(count: int | None) -> str:
    """Return, as the end of a sentence, that a resume in the epoch went back in the data."""
    if count is None:
        return ""
    return (
        f"; {count} of {count} samples since the restart had been trained before the save; in "
        "the baseline, others followed"
    )


# -- samples ---------------------------------------------------------------------------------------


@describes(
    EpochSamplesUneven,
    usual_cause=(
        "The place in the data counts from the last resume, or counts prefetched batches."
    ),
    remedy="Save how many samples of the epoch were trained, and skip as many after the load.",
)
def _describe_epoch_samples_uneven(facts: EpochSamplesUneven, _: LauncherWords) -> str:
    return (
        f"epoch {facts.epoch}: of {plural(facts.sample_count, 'sample')}, {facts.missing_count} "
        f"were never trained, and {facts.surplus_count} once too often"
        f"{_describe_repeated_samples(facts.repeated_samples)}"
    )


@describes(
    RunSamplesUneven,
    usual_cause="The place in the data was not saved, or at another moment than the model.",
    remedy=(
        "Save the loader's or sampler's state with the model, and load it before the first batch."
    ),
)
def _describe_run_samples_uneven(facts: RunSamplesUneven, _: LauncherWords) -> str:
    return (
        f"of {plural(facts.sample_count, 'sample')} in "
        f"{plural(facts.pass_count, 'pass', 'passes')} over the data, {facts.missing_count} were "
        f"trained less often than in the baseline, and {facts.surplus_count} more often"
    )
