"""Sentences of findings about the place in training, and about the epochs of a run."""

from collections.abc import Sequence

from chaos.check.kinds.epochs import (
    BatchNumbers,
    CadenceChange,
    DependentBeganEarly,
    EpochFacts,
    EpochLengthDiffers,
    EpochMetricDiffers,
    EpochRepeated,
    EpochsLeftOut,
    InputsLeftOut,
    InputsTrainedAgain,
    OptimizerStepsShifted,
    StepsRepeated,
    StepsSkipped,
    StepTotalDiffers,
    TooFewEpochs,
    TooManyEpochs,
)
from chaos.check.prose.registry import describes
from chaos.model.launcher_facts import LauncherWords
from chaos.wording import plural

# -- cursor ----------------------------------------------------------------------------------------


@describes(
    StepsRepeated,
    usual_cause="The step within the epoch is not in the checkpoint, or the loader begins anew.",
    remedy=(
        "Save epoch and step, and skip the batches that were trained, or keep the loader's state."
    ),
)
def _describe_steps_repeated(facts: StepsRepeated, _: LauncherWords) -> str:
    allowance = "" if facts.allowed_surplus is None else f"; it threw away {facts.allowed_surplus}"
    return f"{_describe_step_count(facts, 'repeated')}{allowance}{_describe_resume(facts)}"


@describes(
    StepsSkipped,
    usual_cause="The place is saved before its batch is trained, or batches are skipped twice.",
    remedy="Save the place after the optimizer's step, and skip what the model was trained on.",
)
def _describe_steps_skipped(facts: StepsSkipped, _: LauncherWords) -> str:
    return f"{_describe_step_count(facts, 'skipped')}{_describe_resume(facts)}"


@describes(
    InputsTrainedAgain,
    usual_cause="The checkpoint holds the step just finished, and the loop begins with it again.",
    remedy="Save the place at which training has to go on, and begin the loop there.",
)
def _describe_inputs_trained_again(facts: InputsTrainedAgain, _: LauncherWords) -> str:
    return (
        f"attempt {facts.attempt} went back: at epoch {facts.epoch} it was given the inputs that "
        f"the baseline has {plural(facts.steps, 'step')} before that place; they were trained again"
    )


@describes(
    InputsLeftOut,
    usual_cause=(
        "The place of the data was saved later than the model, or batches are skipped twice."
    ),
    remedy="Save the place of the data with the model, and begin the loop there.",
)
def _describe_inputs_left_out(facts: InputsLeftOut, _: LauncherWords) -> str:
    return (
        f"attempt {facts.attempt} went ahead: at epoch {facts.epoch} it was given the inputs that "
        f"the baseline has {plural(facts.steps, 'step')} after that place; they were left out"
    )


@describes(
    OptimizerStepsShifted,
    usual_cause="The count of batches by which this optimizer steps begins at 0 after a restart.",
    remedy="Save that count, or step by the number of the batch in the epoch.",
)
def _describe_optimizer_steps_shifted(facts: OptimizerStepsShifted, _: LauncherWords) -> str:
    return (
        f"on rank {facts.rank} {describe_cadence_change(facts.change)}, after the restart at "
        f"{facts.resumed_at}"
    )


def describe_cadence_change(change: CadenceChange) -> str:
    """Return in words that an optimizer stepped after other batches than in the baseline."""
    return (
        f"optimizer {change.optimizer} stepped after {_describe_batches(change.batches)}, and in "
        f"the baseline after {_describe_batches(change.baseline_batches)}"
    )


def _describe_batches(batches: BatchNumbers) -> str:
    if not batches.total:
        return "no batch"
    numbers = ", ".join(map(str, batches.first))
    ellipsis = " …" * (batches.total > len(batches.first))
    return f"{'batch' if batches.total == 1 else 'batches'} {numbers}{ellipsis}"


def _describe_step_count(facts: StepsRepeated | StepsSkipped, verb: str) -> str:
    surplus = abs(facts.steps - facts.expected_steps)
    return (
        f"rank {facts.rank} {verb} {plural(surplus, 'step')} of epoch {facts.epoch} after the "
        f"restart: {facts.steps} instead of {facts.expected_steps}"
    )


def _describe_resume(facts: StepsRepeated | StepsSkipped) -> str:
    """Return where the attempt resumed, and the evidence, as the end of a sentence."""
    if facts.resume is None:
        return ""
    return f"; it resumed at {facts.resume.place}: {facts.resume.evidence}"


# -- epochs ----------------------------------------------------------------------------------------


@describes(
    EpochRepeated,
    usual_cause="After a restart the loop begins at epoch 0, or at the finished epoch.",
    remedy="Save the number of the next epoch with the model, and begin the loop at it.",
)
def _describe_epoch_repeated(facts: EpochRepeated, terms: LauncherWords) -> str:
    text = f"epoch {facts.epoch} was {terms.epoch_ended_verb} twice"
    return f"{text}{_describe_missing_read(facts)}"


@describes(
    EpochsLeftOut,
    usual_cause="The saved epoch is ahead of the work, or a save at an epoch's end is missing.",
    remedy="Save the next epoch's number only once its predecessor is trained.",
)
def _describe_epochs_left_out(facts: EpochsLeftOut, terms: LauncherWords) -> str:
    subject = (
        f"epoch {facts.first_epoch} was"
        if facts.first_epoch == facts.last_epoch
        else f"epochs {facts.first_epoch}-{facts.last_epoch} were"
    )
    text = f"{subject} never {terms.epoch_ended_verb}, and epoch {facts.later_epoch} was"
    return f"{text}{_describe_missing_read(facts)}"


@describes(
    TooManyEpochs,
    usual_cause="After a restart the loop trains its full number of epochs again.",
    remedy="Begin the loop at the saved epoch, and end it at the same total.",
)
def _describe_too_many_epochs(facts: TooManyEpochs, _: LauncherWords) -> str:
    text = f"{plural(facts.epochs, 'epoch')} were trained, the baseline has {facts.baseline_epochs}"
    return f"{text}{_describe_missing_read(facts)}"


@describes(
    TooFewEpochs,
    usual_cause="The loop begins after a later epoch than the last trained one, or ends early.",
    remedy=(
        "Begin at the first epoch that is not trained; look at limits that count from a restart."
    ),
)
def _describe_too_few_epochs(facts: TooFewEpochs, _: LauncherWords) -> str:
    text = (
        f"the job finished after {plural(facts.epochs, 'epoch')}, the baseline has "
        f"{facts.baseline_epochs}"
    )
    return f"{text}{_describe_missing_read(facts)}"


@describes(
    DependentBeganEarly,
    usual_cause="The dependency is such as `afterany`, or the script exits with 0 too early.",
    remedy="Use `afterok`, and exit with 0 only when training is finished.",
)
def _describe_dependent_began_early(facts: DependentBeganEarly, _: LauncherWords) -> str:
    text = (
        f"{facts.script} ({facts.dependency}) began when {facts.epochs} of "
        f"{plural(facts.baseline_epochs, 'epoch')} had been trained"
    )
    return f"{text}{_describe_missing_read(facts)}"


@describes(
    StepTotalDiffers,
    usual_cause=(
        "The count of all steps is not in the checkpoint, or is saved apart from the model."
    ),
    remedy="Save the count of steps with the model, and end training by it.",
)
def _describe_step_total_differs(facts: StepTotalDiffers, _: LauncherWords) -> str:
    text = (
        f"rank {facts.rank} made {plural(facts.steps, 'step')} in all, the baseline "
        f"{facts.baseline_steps}"
    )
    return f"{text}{_describe_missing_read(facts)}"


@describes(
    EpochLengthDiffers,
    usual_cause="The data split, batch size or accumulation is different after a restart.",
    remedy="Build the data loader in the same way after a restart.",
)
def _describe_epoch_length_differs(facts: EpochLengthDiffers, _: LauncherWords) -> str:
    text = (
        f"rank {facts.rank} made {plural(facts.steps, 'step')} in epoch {facts.epoch}, the "
        f"baseline {facts.baseline_steps}"
    )
    return f"{text}{_describe_missing_read(facts)}"


@describes(
    EpochMetricDiffers,
    usual_cause="The reported epoch is counted anew after a restart.",
    remedy="Take the number of the epoch from the checkpoint.",
)
def _describe_epoch_metric_differs(facts: EpochMetricDiffers, _: LauncherWords) -> str:
    text = (
        f"report {facts.report} says `{facts.metric}` {_describe_values(facts.values)}, "
        f"the baseline's {_describe_values(facts.baseline_values)}"
    )
    return f"{text}{_describe_missing_read(facts)}"


def _describe_values(values: Sequence[object]) -> str:
    return " and ".join(dict.fromkeys("nothing" if v is None else str(v) for v in values))


def _describe_missing_read(facts: EpochFacts) -> str:
    """Return, as the end of a sentence, that no rank of an attempt asked for its checkpoint."""
    if facts.attempt_without_read is None:
        return ""
    return f"; no rank of attempt {facts.attempt_without_read} asked for its checkpoint"
