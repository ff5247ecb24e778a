"""Facts of findings about the saves that a restart could have resumed from."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from chaos.check.kinds.base import Facts
from chaos.model.places import TrainingPlace


class Cost(NamedTuple):
    """The finished steps that a restart trained again."""

    steps: int
    #: how many it would have been from the newest save; None where that is not known
    steps_from_newest: int | None


class ResumedFile(NamedTuple):
    """The file that a rank resumed from."""

    path: str
    written_at: TrainingPlace
    #: the place at which the model in it was trained
    content_place: TrainingPlace
    #: where training went on, if that is before the place at which it was written
    earlier_resume: TrainingPlace | None


class NewestSave(NamedTuple):
    """The newest save that there was: its file or folder, and the place of the model in it."""

    path: str
    place: TrainingPlace


@dataclass(frozen=True)
class OlderSave(Facts):
    """A rank resumed from an older save than the newest whole one that was there."""

    kind: ClassVar[str] = "older-save"
    check: ClassVar[str] = "resume-point"
    rank: int
    file: ResumedFile
    newest: NewestSave
    cost: Cost | None
    #: the rule by which the newest counts as a save (`chaos.resume.save_rules`)
    rule: str


@dataclass(frozen=True)
class NewerSaveRemoved(Facts):
    """A rank resumed from an older save, because the job itself had removed a newer one."""

    kind: ClassVar[str] = "newer-save-removed"
    check: ClassVar[str] = "resume-point"
    rank: int
    file: ResumedFile
    newest: NewestSave
    removed_at: TrainingPlace
    cost: Cost | None


@dataclass(frozen=True)
class SavesIgnored(Facts):
    """An attempt started from scratch although a whole save was there."""

    kind: ClassVar[str] = "saves-ignored"
    check: ClassVar[str] = "resume-point"
    attempt: int
    newest: NewestSave
    cost: Cost | None
    #: the rule by which the newest counts as a save (`chaos.resume.save_rules`)
    rule: str


#: What became of the newest save before the attempt began.
SaveLoss = Literal[
    "in another node's temporary folder",
    "on a lost node's disk",
    "removed before the next was whole",
    "removed",
    "not there",
]


@dataclass(frozen=True)
class SavesGone(Facts):
    """An attempt started from scratch because the saves that had been made were gone."""

    kind: ClassVar[str] = "saves-gone"
    check: ClassVar[str] = "resume-point"
    attempt: int
    newest: NewestSave
    loss: SaveLoss
    #: where the job removed it, if it did
    removed_at: TrainingPlace | None
    cost: Cost | None
    #: the rule by which it counts as a save
    rule: str
