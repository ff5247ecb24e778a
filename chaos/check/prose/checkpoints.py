"""Sentences of findings about checkpoints: as stored, as kept, and as reported and returned."""

from chaos.check.kinds.checkpoints import (
    AttemptFilesMixed,
    BestCheckpointMissing,
    CheckpointEntryMissing,
    CheckpointFileChanged,
    CheckpointFileMissing,
    CheckpointGone,
    CheckpointRemoved,
    DamagedCheckpoint,
    DamagedFiles,
    ErrorAfterLoad,
    FileCutShort,
    FileNotSynced,
    FileUnreadable,
    LoadRefused,
    NewestCheckpointMissing,
    NewestCheckpointRemoved,
    RankFilesMixed,
    ReportNotCommitted,
    ReturnedCheckpointMissing,
    ReturnedCheckpointUncommitted,
    ShardCutShort,
    ShardMetadataMissing,
    ShardMissing,
    SharedFile,
    TooManyCheckpoints,
    UnreadableFile,
)
from chaos.check.prose.registry import describes
from chaos.model.launcher_facts import LauncherWords
from chaos.wording import describe_ranks, plural, strip_colors

# -- checkpoints -----------------------------------------------------------------------------------


SHARED_FILE_ADVICE = "let one rank report the file, or give each rank's file a name of its own"


def describe_shared_file(file: SharedFile) -> str:
    """Return in words that several ranks upload a file of one name."""
    location_text = f", saved at {file.source_location}" if file.source_location else ""
    return f"{describe_ranks(file.ranks)} each upload {file.path} with other content{location_text}"


@describes(
    CheckpointGone,
    usual_cause="A cleanup removes checkpoints, or they lie on the disk of a lost node.",
    remedy="Keep them on storage that outlives the nodes, and leave removal to `num_to_keep`.",
)
def _describe_checkpoint_gone(facts: CheckpointGone, _: LauncherWords) -> str:
    return _describe_damage(facts, "is gone")


@describes(
    CheckpointFileMissing,
    usual_cause="The upload of some files failed, or something removed them.",
    remedy="Use storage that reports a failed upload, and remove nothing that was reported.",
)
def _describe_checkpoint_file_missing(facts: CheckpointFileMissing, _: LauncherWords) -> str:
    return _describe_damage(facts, f"lacks {_list_files(facts)}")


@describes(
    CheckpointFileChanged,
    usual_cause="A file is written again after it was reported, or its upload was cut off.",
    remedy="Write each checkpoint to a new folder, and leave it alone once it is reported.",
)
def _describe_checkpoint_file_changed(facts: CheckpointFileChanged, _: LauncherWords) -> str:
    return _describe_damage(facts, f"has another {_list_files(facts)}")


@describes(
    AttemptFilesMixed,
    usual_cause="A lost attempt left a half-uploaded checkpoint in a folder of the same name.",
    remedy="Give the checkpoints of each attempt names of their own.",
)
def _describe_attempt_files_mixed(facts: AttemptFilesMixed, _: LauncherWords) -> str:
    return _describe_damage(facts, f"was mixed with {_list_files(facts)}")


def _describe_damage(facts: DamagedCheckpoint, damage: str) -> str:
    consequence = "" if facts.is_another_whole else "; not one whole checkpoint was left"
    return f"{_describe_look(facts.checkpoint, facts.epoch, facts.op)} {damage}{consequence}"


def _list_files(facts: DamagedFiles) -> str:
    return f"{facts.path}{_describe_others(facts.other_count)}"


@describes(
    RankFilesMixed,
    usual_cause="Every rank saves to the same file name, and all report it at once.",
    remedy="Let rank 0 alone report the file, or put the rank into its name.",
)
def _describe_rank_files_mixed(facts: RankFilesMixed, _: LauncherWords) -> str:
    return (
        f"{_describe_look(facts.checkpoint, facts.epoch, facts.op)} held the {facts.file.path} of "
        f"no rank: {describe_shared_file(facts.file)}; {SHARED_FILE_ADVICE}"
    )


def _describe_look(checkpoint: str, epoch: int, op: int | None) -> str:
    """Return, as the beginning of a sentence, the checkpoint and the time of the look at it."""
    moment_text = "when the run was over" if op is None else f"at op {op}"
    return f"{checkpoint} of epoch {epoch} was committed, and {moment_text} it"


def _describe_others(count: int) -> str:
    return f" and {count} more" if count else ""


@describes(
    ShardMetadataMissing,
    usual_cause="It was reported before all ranks had saved; `.metadata` is written last.",
    remedy="Wait for the save to end on every rank, then report rank 0's folder.",
)
def _describe_shard_metadata_missing(facts: ShardMetadataMissing, _: LauncherWords) -> str:
    return (
        f"{facts.checkpoint} of epoch {facts.epoch} was committed, and it has no metadata beside "
        f"{facts.path}, without which no attempt can read it"
    )


@describes(
    ShardMissing,
    usual_cause="A rank did not report its shards, or they were not yet written.",
    remedy="Let every rank report its shards after the save has ended on all ranks.",
)
def _describe_shard_missing(facts: ShardMissing, _: LauncherWords) -> str:
    return (
        f"{facts.checkpoint} of epoch {facts.epoch} was committed, and it lacks {facts.path}, "
        "which its own metadata names"
    )


@describes(
    ShardCutShort,
    usual_cause=(
        "It was reported during an asynchronous save, or writing failed without an error."
    ),
    remedy="Wait for the result of `async_save` before you report.",
)
def _describe_shard_cut_short(facts: ShardCutShort, _: LauncherWords) -> str:
    return (
        f"{facts.checkpoint} of epoch {facts.epoch} was committed, and it has {facts.size} bytes "
        f"of {facts.path}, and {facts.needed_size} by its own metadata"
    )


@describes(
    CheckpointEntryMissing,
    usual_cause="After a restart the script saves less, such as a model without its optimizer.",
    remedy="Build the state to save in one function, and use it in every attempt.",
)
def _describe_checkpoint_entry_missing(facts: CheckpointEntryMissing, _: LauncherWords) -> str:
    return (
        f"{facts.checkpoint} of epoch {facts.epoch} was committed, and it lacks `{facts.entry}`"
        f"{_describe_others(facts.other_count)}, which the baseline's holds"
    )


@describes(
    FileCutShort,
    usual_cause="The file is written under its final name, and the process died meanwhile.",
    remedy="Write to a temporary name in the same folder, and rename it once it is whole.",
)
def _describe_file_cut_short(facts: FileCutShort, _: LauncherWords) -> str:
    return _describe_unreadable(
        facts,
        state=f", whose writing by rank {facts.writing_rank} was cut off",
        remedy=": write to a temporary name, then rename",
    )


@describes(
    FileNotSynced,
    usual_cause="The file is renamed while its content is still in memory.",
    remedy="Flush it and call `os.fsync` before you rename it.",
)
def _describe_file_not_synced(facts: FileNotSynced, _: LauncherWords) -> str:
    return _describe_unreadable(
        facts,
        state=", which was not synced as its machine lost its power",
        remedy=": flush the file and `os.fsync` it before it is renamed",
    )


@describes(
    LoadRefused,
    usual_cause=(
        "The file holds Python objects, and `torch.load` reads only tensors and plain values."
    ),
    remedy="Save only those, or load your own files with `weights_only=False`.",
)
def _describe_load_refused(facts: LoadRefused, _: LauncherWords) -> str:
    return _describe_unreadable(
        facts,
        remedy="; the file is whole: save tensors and plain values alone, or read it with "
        "`torch.load(..., weights_only=False)`",
    )


@describes(
    FileUnreadable,
    usual_cause="Not known. It may be of another format, or changed after it was written.",
    remedy="Load it by hand; if it is damaged, fall back to the save before it.",
)
def _describe_file_unreadable(facts: FileUnreadable, _: LauncherWords) -> str:
    return _describe_unreadable(facts, remedy="; its writing was seen to end")


def _describe_unreadable(facts: UnreadableFile, *, state: str = "", remedy: str) -> str:
    return (
        f"rank {facts.rank} could not read {facts.path}{state}, and attempt {facts.attempt} ended "
        f"on it ({_shorten_error(facts.error)}){remedy}"
    )


@describes(
    ErrorAfterLoad,
    usual_cause="What was saved does not fit: a key, a shape or a type differs.",
    remedy="Run the code that loads with a save of a real run in a test.",
)
def _describe_error_after_load(facts: ErrorAfterLoad, _: LauncherWords) -> str:
    return (
        f"attempt {facts.attempt} read {facts.path}, and raised before its first step, without a "
        f"fault: {describe_ranks(facts.errors)}: "
        f"{_shorten_error(next(iter(facts.errors.values())))}"
    )


def _shorten_error(error: str) -> str:
    """Return an error up to the end of its first sentence, without colours."""
    line = strip_colors(error).strip().split("\n", 1)[0]
    return line.split(". ", 1)[0].rstrip(". ")


# -- retention -------------------------------------------------------------------------------------


@describes(
    CheckpointRemoved,
    usual_cause="Not known: without `num_to_keep` Ray removes nothing.",
    remedy="Look for what else removes folders in the storage.",
)
def _describe_checkpoint_removed(facts: CheckpointRemoved, _: LauncherWords) -> str:
    return f"{facts.checkpoint} was removed, although all are to be kept"


@describes(
    NewestCheckpointRemoved,
    usual_cause="Checkpoints are kept by score, and the newest had a bad one.",
    remedy="Keep the newest checkpoint until a newer one is committed.",
)
def _describe_newest_checkpoint_removed(facts: NewestCheckpointRemoved, _: LauncherWords) -> str:
    return (
        f"{facts.checkpoint} (epoch {facts.epoch}) was removed while it was the newest that was "
        "committed"
    )


@describes(
    TooManyCheckpoints,
    usual_cause="A restart forgets the checkpoints of earlier attempts.",
    remedy="Give the run the same name and storage path at every start.",
)
def _describe_too_many_checkpoints(facts: TooManyCheckpoints, _: LauncherWords) -> str:
    return f"{plural(facts.count, 'checkpoint')} were left, {facts.limit} were to be kept"


@describes(
    NewestCheckpointMissing,
    usual_cause="Checkpoints are kept by score alone, or a cleanup removes the newest.",
    remedy="Keep the newest checkpoint besides the best one.",
)
def _describe_newest_checkpoint_missing(facts: NewestCheckpointMissing, _: LauncherWords) -> str:
    return f"{facts.checkpoint} (epoch {facts.epoch}), the newest, was not left"


@describes(
    BestCheckpointMissing,
    usual_cause=(
        "The score is compared in the wrong order, or earlier scores are forgotten at a restart."
    ),
    remedy="Check `checkpoint_score_order`, and report the metric with every checkpoint.",
)
def _describe_best_checkpoint_missing(facts: BestCheckpointMissing, _: LauncherWords) -> str:
    return f"{facts.checkpoint} (epoch {facts.epoch}), the best by `{facts.score}`, was not left"


# -- ack -------------------------------------------------------------------------------------------


@describes(
    ReportNotCommitted,
    usual_cause=(
        "Not known: look at the controller's log. The upload may have failed in the background."
    ),
    remedy="Let a failed upload raise, and end training only after the last report is recorded.",
)
def _describe_report_not_committed(facts: ReportNotCommitted, _: LauncherWords) -> str:
    return (
        f"the report of epoch {facts.epoch} returned on every rank of attempt {facts.attempt}, "
        "which ended by itself, and was never committed"
    )


@describes(
    ReturnedCheckpointUncommitted,
    usual_cause="Not known. It may be of another run, or of a report that failed.",
    remedy="Give each new run a name of its own, and do not replace the result's checkpoint.",
)
def _describe_returned_checkpoint_uncommitted(
    facts: ReturnedCheckpointUncommitted, _: LauncherWords
) -> str:
    return f"fit() returned {facts.checkpoint}, which was never committed"


@describes(
    ReturnedCheckpointMissing,
    usual_cause="A cleanup removed it after it was committed.",
    remedy="Keep the checkpoint that the result names.",
)
def _describe_returned_checkpoint_missing(
    facts: ReturnedCheckpointMissing, _: LauncherWords
) -> str:
    return f"fit() returned {facts.checkpoint}, and storage does not hold it"
