"""Facts of findings about the place of a restart, and about what its ranks agree on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from chaos.check.kinds.base import Facts
from chaos.model.places import TrainingPlace


@dataclass(frozen=True)
class FailedLoadIgnored(Facts):
    """A rank could not read its save, and trained from scratch as if there were none."""

    kind: ClassVar[str] = "failed-load-ignored"
    check: ClassVar[str] = "start-decision"
    rank: int
    attempt: int
    path: str
    error: str


@dataclass(frozen=True)
class UncommittedCheckpoint(Facts):
    """An attempt went on from a checkpoint that was never committed."""

    kind: ClassVar[str] = "uncommitted-checkpoint"
    check: ClassVar[str] = "committed-only"
    attempt: int
    checkpoint: str
    #: the rank that asked for it; None where it was handed to the attempt
    rank: int | None = None


@dataclass(frozen=True)
class UnfinishedFileUsed(Facts):
    """A rank went on from a file whose writing was never finished."""

    kind: ClassVar[str] = "unfinished-file-used"
    check: ClassVar[str] = "committed-only"
    rank: int
    attempt: int
    path: str
    writing_rank: int


class UnreachableFile(NamedTuple):
    """A file that one rank read, and that another cannot see, being on another node."""

    path: str
    rank: int
    reading_rank: int


@dataclass(frozen=True)
class DifferentCheckpoints(Facts):
    """The ranks of one attempt were handed different checkpoints."""

    kind: ClassVar[str] = "different-checkpoints"
    check: ClassVar[str] = "agreement"
    attempt: int
    #: by rank; None for no checkpoint
    checkpoints: Mapping[int, str | None]


@dataclass(frozen=True)
class DifferentPlaces(Facts):
    """The ranks of one attempt went on from different places in training."""

    kind: ClassVar[str] = "different-places"
    check: ClassVar[str] = "agreement"
    attempt: int
    #: by rank
    places: Mapping[int, TrainingPlace]
    unreachable_file: UnreachableFile | None


class PlacedFile(NamedTuple):
    """A file with the place in training at which it was saved."""

    path: str
    place: TrainingPlace


@dataclass(frozen=True)
class DifferentAges(Facts):
    """The ranks of one attempt read files that were saved at different places."""

    kind: ClassVar[str] = "different-ages"
    check: ClassVar[str] = "agreement"
    attempt: int
    #: by rank
    files: Mapping[int, PlacedFile]


@dataclass(frozen=True)
class DifferentModels(Facts):
    """The ranks of one attempt began with different models."""

    kind: ClassVar[str] = "different-models"
    check: ClassVar[str] = "agreement"
    attempt: int
    rank: int
    other_rank: int


class NamedCheckpoint(NamedTuple):
    """A checkpoint that was committed, with its epoch."""

    name: str
    epoch: int


@dataclass(frozen=True)
class CheckpointNotHanded(Facts):
    """An attempt was handed no checkpoint, although one had been committed."""

    kind: ClassVar[str] = "checkpoint-not-handed"
    check: ClassVar[str] = "resume-point"
    attempt: int
    newest: NamedCheckpoint
    #: the first and the last name that the script gave its run, if they differ
    run_names: tuple[str, str] | None


@dataclass(frozen=True)
class OlderCheckpoint(Facts):
    """An attempt was handed an older checkpoint than the newest committed one."""

    kind: ClassVar[str] = "older-checkpoint"
    check: ClassVar[str] = "resume-point"
    attempt: int
    checkpoint: NamedCheckpoint
    newest: NamedCheckpoint


@dataclass(frozen=True)
class CheckpointUnused(Facts):
    """An attempt was handed a checkpoint, loaded nothing from it and started from scratch."""

    kind: ClassVar[str] = "checkpoint-unused"
    check: ClassVar[str] = "resume-point"
    attempt: int
    checkpoint: str
    #: whether any rank asked for it
    is_requested: bool


@dataclass(frozen=True)
class OlderThanFiles(Facts):
    """A rank resumed at an earlier place than the files of its checkpoint were saved at."""

    kind: ClassVar[str] = "older-than-files"
    check: ClassVar[str] = "resume-point"
    rank: int
    attempt: int
    checkpoint: str
    saved_at: TrainingPlace
    resumed_at: TrainingPlace
    #: what shows the place of the resume
    evidence: str
