"""Facts of findings about checkpoints: as stored, as kept, and as reported and returned."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from chaos.check.kinds.base import Facts

# -- checkpoints -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class DamagedCheckpoint(Facts):
    """A committed checkpoint was not whole when storage was looked at."""

    check: ClassVar[str] = "checkpoints"
    checkpoint: str
    epoch: int
    #: the fault after which storage was looked at; None when the run was over
    op: int | None
    #: whether another checkpoint was whole at that time
    is_another_whole: bool


@dataclass(frozen=True)
class CheckpointGone(DamagedCheckpoint):
    """A committed checkpoint was no longer in storage."""

    kind: ClassVar[str] = "checkpoint-gone"


@dataclass(frozen=True)
class DamagedFiles(DamagedCheckpoint):
    """Files of a committed checkpoint were not as they had been uploaded."""

    #: the first of the files, by name, and the number of the others
    path: str
    other_count: int


@dataclass(frozen=True)
class CheckpointFileMissing(DamagedFiles):
    """A committed checkpoint lacked files that had been uploaded."""

    kind: ClassVar[str] = "checkpoint-file-missing"


@dataclass(frozen=True)
class CheckpointFileChanged(DamagedFiles):
    """A committed checkpoint held files with another content than was uploaded."""

    kind: ClassVar[str] = "checkpoint-file-changed"


@dataclass(frozen=True)
class AttemptFilesMixed(DamagedFiles):
    """A committed checkpoint held files of an earlier attempt beside its own."""

    kind: ClassVar[str] = "attempt-files-mixed"


@dataclass(frozen=True)
class SharedFile:
    """A file of one checkpoint that several ranks uploaded, each with content of its own."""

    path: str
    ranks: tuple[int, ...]
    #: where the job saved it, `train.py:46`; None if that was not seen
    source_location: str | None


@dataclass(frozen=True)
class RankFilesMixed(Facts):
    """Several ranks uploaded a file of one name, and storage held the file of none of them."""

    kind: ClassVar[str] = "rank-files-mixed"
    check: ClassVar[str] = "checkpoints"
    checkpoint: str
    epoch: int
    #: the fault after which storage was looked at; None when the run was over
    op: int | None
    file: SharedFile


@dataclass(frozen=True)
class ShardMetadataMissing(Facts):
    """A sharded checkpoint was committed without its metadata, so that it cannot be loaded."""

    kind: ClassVar[str] = "shard-metadata-missing"
    check: ClassVar[str] = "checkpoints"
    checkpoint: str
    epoch: int
    #: a shard that has no metadata beside it
    path: str


@dataclass(frozen=True)
class ShardMissing(Facts):
    """A sharded checkpoint was committed without a file that its own metadata names."""

    kind: ClassVar[str] = "shard-missing"
    check: ClassVar[str] = "checkpoints"
    checkpoint: str
    epoch: int
    path: str


@dataclass(frozen=True)
class ShardCutShort(Facts):
    """A sharded checkpoint was committed with a file shorter than its own metadata says."""

    kind: ClassVar[str] = "shard-cut-short"
    check: ClassVar[str] = "checkpoints"
    checkpoint: str
    epoch: int
    path: str
    #: in bytes
    size: int
    #: in bytes, by the metadata
    needed_size: int


@dataclass(frozen=True)
class CheckpointEntryMissing(Facts):
    """A sharded checkpoint was committed without entries that the fault-free run's holds."""

    kind: ClassVar[str] = "checkpoint-entry-missing"
    check: ClassVar[str] = "checkpoints"
    checkpoint: str
    epoch: int
    #: the first of the entries, by name, and the number of the others
    entry: str
    other_count: int


@dataclass(frozen=True)
class UnreadableFile(Facts):
    """A rank could not read a file that the job had saved, and the attempt ended on it."""

    check: ClassVar[str] = "checkpoints"
    rank: int
    attempt: int
    path: str
    error: str


@dataclass(frozen=True)
class FileCutShort(UnreadableFile):
    """An attempt ended on a save that could not be read, because its writing was cut off."""

    kind: ClassVar[str] = "file-cut-short"
    writing_rank: int


@dataclass(frozen=True)
class FileNotSynced(UnreadableFile):
    """An attempt ended on a save that a power loss had emptied, because it was not synced."""

    kind: ClassVar[str] = "file-not-synced"


@dataclass(frozen=True)
class LoadRefused(UnreadableFile):
    """An attempt ended because `torch.load` refused a whole file that holds Python objects."""

    kind: ClassVar[str] = "load-refused"


@dataclass(frozen=True)
class FileUnreadable(UnreadableFile):
    """An attempt ended on a save that could not be read, although its writing had ended."""

    kind: ClassVar[str] = "file-unreadable"


@dataclass(frozen=True)
class ErrorAfterLoad(Facts):
    """An attempt read a save, and raised an error of its own before its first step."""

    kind: ClassVar[str] = "error-after-load"
    check: ClassVar[str] = "checkpoints"
    attempt: int
    path: str
    #: by rank
    errors: Mapping[int, str]


# -- retention -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckpointRemoved(Facts):
    """A checkpoint was removed, although all checkpoints are to be kept."""

    kind: ClassVar[str] = "checkpoint-removed"
    check: ClassVar[str] = "retention"
    checkpoint: str


@dataclass(frozen=True)
class NewestCheckpointRemoved(Facts):
    """The newest checkpoint was removed before a newer one was committed."""

    kind: ClassVar[str] = "newest-checkpoint-removed"
    check: ClassVar[str] = "retention"
    checkpoint: str
    epoch: int


@dataclass(frozen=True)
class TooManyCheckpoints(Facts):
    """More checkpoints were left at the end than were to be kept."""

    kind: ClassVar[str] = "too-many-checkpoints"
    check: ClassVar[str] = "retention"
    count: int
    #: the number that was to be kept
    limit: int


@dataclass(frozen=True)
class NewestCheckpointMissing(Facts):
    """The newest checkpoint was not there at the end."""

    kind: ClassVar[str] = "newest-checkpoint-missing"
    check: ClassVar[str] = "retention"
    checkpoint: str
    epoch: int


@dataclass(frozen=True)
class BestCheckpointMissing(Facts):
    """The checkpoint with the best score was not there at the end."""

    kind: ClassVar[str] = "best-checkpoint-missing"
    check: ClassVar[str] = "retention"
    checkpoint: str
    epoch: int
    #: the metric that is the score
    score: str


# -- ack -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReportNotCommitted(Facts):
    """A report returned on every rank of an attempt without a fault, and was never committed."""

    kind: ClassVar[str] = "report-not-committed"
    check: ClassVar[str] = "ack"
    attempt: int
    epoch: int


@dataclass(frozen=True)
class ReturnedCheckpointUncommitted(Facts):
    """The training call returned a checkpoint that was never committed."""

    kind: ClassVar[str] = "returned-checkpoint-uncommitted"
    check: ClassVar[str] = "ack"
    checkpoint: str


@dataclass(frozen=True)
class ReturnedCheckpointMissing(Facts):
    """The training call returned a checkpoint that storage does not hold."""

    kind: ClassVar[str] = "returned-checkpoint-missing"
    check: ClassVar[str] = "ack"
    checkpoint: str
