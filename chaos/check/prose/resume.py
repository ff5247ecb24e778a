"""Sentences of findings about the place of a restart, and about what its ranks agree on."""

from collections.abc import Mapping

from chaos.check.kinds.resume import (
    CheckpointNotHanded,
    CheckpointUnused,
    DifferentAges,
    DifferentCheckpoints,
    DifferentModels,
    DifferentPlaces,
    FailedLoadIgnored,
    NamedCheckpoint,
    OlderCheckpoint,
    OlderThanFiles,
    UncommittedCheckpoint,
    UnfinishedFileUsed,
)
from chaos.check.prose.registry import describes
from chaos.model.launcher_facts import LauncherWords


@describes(
    FailedLoadIgnored,
    usual_cause="An `except` around the load goes on with a new model.",
    remedy=(
        "Let the error end the process, or read the save before; start anew only without a save."
    ),
)
def _describe_failed_load_ignored(facts: FailedLoadIgnored, _: LauncherWords) -> str:
    return (
        f"rank {facts.rank} of attempt {facts.attempt} could not read {facts.path} "
        f"({facts.error}), and trained from scratch without a word"
    )


@describes(
    UncommittedCheckpoint,
    usual_cause="The checkpoint was still being uploaded when the workers were lost.",
    remedy="Resume only from what the controller has recorded.",
)
def _describe_uncommitted_checkpoint(facts: UncommittedCheckpoint, _: LauncherWords) -> str:
    if facts.rank is None:
        return f"attempt {facts.attempt} was handed {facts.checkpoint}, which was never committed"
    return (
        f"rank {facts.rank} of attempt {facts.attempt} was given {facts.checkpoint}, "
        "which was never committed"
    )


@describes(
    UnfinishedFileUsed,
    usual_cause="The file is written under its final name, and a death leaves half of it.",
    remedy="Write to a temporary name in the same folder, and rename it once it is whole.",
)
def _describe_unfinished_file_used(facts: UnfinishedFileUsed, _: LauncherWords) -> str:
    return (
        f"rank {facts.rank} of attempt {facts.attempt} went on from {facts.path}, whose "
        f"writing by rank {facts.writing_rank} was never finished"
    )


@describes(
    DifferentCheckpoints,
    usual_cause="Each rank looks for the newest checkpoint by itself.",
    remedy="Let one rank choose, and broadcast the choice.",
)
def _describe_different_checkpoints(facts: DifferentCheckpoints, _: LauncherWords) -> str:
    names = {rank: name or "nothing" for rank, name in facts.checkpoints.items()}
    return f"attempt {facts.attempt} was not handed one checkpoint: {_list_by_rank(names)}"


@describes(
    DifferentPlaces,
    usual_cause="Each rank resumes from its own newest save, or from its node's disk.",
    remedy="Let the ranks agree on the newest save that all of them can read.",
)
def _describe_different_places(facts: DifferentPlaces, _: LauncherWords) -> str:
    text = (
        f"the ranks of attempt {facts.attempt} resumed at several places: "
        f"{_list_by_rank({rank: str(place) for rank, place in facts.places.items()})}"
    )
    file = facts.unreachable_file
    if file is None:
        return text
    return (
        f"{text}; rank {file.rank} runs on another node and does not see {file.path}, which "
        f"lies on the disk of rank {file.reading_rank}'s"
    )


@describes(
    DifferentAges,
    usual_cause="A death fell between the saves of two ranks, and each read its own newest file.",
    remedy="Let the ranks agree on the newest save that all of them have.",
)
def _describe_different_ages(facts: DifferentAges, _: LauncherWords) -> str:
    files = {rank: f"{file.path} of {file.place}" for rank, file in facts.files.items()}
    return (
        f"the ranks of attempt {facts.attempt} read files of different ages: "
        f"{_list_by_rank(files)}; ranks must agree on the newest save that all of them have"
    )


@describes(
    DifferentModels,
    usual_cause="Only some ranks load the checkpoint, after the model was wrapped.",
    remedy="Load on every rank, or on one before DDP wraps the model.",
)
def _describe_different_models(facts: DifferentModels, _: LauncherWords) -> str:
    return (
        f"rank {facts.rank} entered attempt {facts.attempt} with another model than rank "
        f"{facts.other_rank}: not all ranks loaded it, and nothing made them equal"
    )


@describes(
    CheckpointNotHanded,
    usual_cause="The run has another name or storage path after the restart.",
    remedy="Give the run the same name and storage path at every start.",
)
def _describe_checkpoint_not_handed(facts: CheckpointNotHanded, _: LauncherWords) -> str:
    text = (
        f"attempt {facts.attempt} was handed no checkpoint and started from scratch, although "
        f"{_describe_checkpoint(facts.newest)} was committed"
    )
    if facts.run_names is None:
        return text
    first_name, last_name = facts.run_names
    return f"{text}; the script named its run {first_name} at first, and {last_name} at the end"


@describes(
    OlderCheckpoint,
    usual_cause="The checkpoint is chosen by score, or by a name that does not sort by age.",
    remedy="Resume from the newest checkpoint; keep the best one for evaluation.",
)
def _describe_older_checkpoint(facts: OlderCheckpoint, _: LauncherWords) -> str:
    return (
        f"attempt {facts.attempt} was handed {_describe_checkpoint(facts.checkpoint)}, although "
        f"{_describe_checkpoint(facts.newest)} was committed after it"
    )


@describes(
    CheckpointUnused,
    usual_cause="The training function never calls `ray.train.get_checkpoint()`, or ignores it.",
    remedy="Call it at the start of the training function, and load what it returns.",
)
def _describe_checkpoint_unused(facts: CheckpointUnused, _: LauncherWords) -> str:
    reason = "and loaded nothing from it" if facts.is_requested else "and no rank asked for it"
    return (
        f"attempt {facts.attempt} started from scratch: it was handed {facts.checkpoint}, {reason}"
    )


@describes(
    OlderThanFiles,
    usual_cause="The epoch is not in the checkpoint, or the loop does not begin at it.",
    remedy="Save the epoch and the step with the model, and begin the loop there.",
)
def _describe_older_than_files(facts: OlderThanFiles, _: LauncherWords) -> str:
    return (
        f"rank {facts.rank} of attempt {facts.attempt} was handed {facts.checkpoint}, whose "
        f"files were saved at {facts.saved_at}, and resumed at {facts.resumed_at}: "
        f"{facts.evidence}"
    )


def _list_by_rank(texts: Mapping[int, str]) -> str:
    return ", ".join(f"rank {rank} {text}" for rank, text in texts.items())


def _describe_checkpoint(checkpoint: NamedCheckpoint) -> str:
    return f"{checkpoint.name} (epoch {checkpoint.epoch})"
