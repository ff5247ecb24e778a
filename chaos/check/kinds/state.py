"""Facts of findings about the job's state: its parts at a resume, and its copies on all ranks."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from chaos.check.kinds.base import Facts
from chaos.model.places import TrainingPlace

#: What usually loses a part, by the part or by what it is of; each has a sentence in `prose`.
RestoreHint = Literal[
    "model",
    "buffers",
    "gradients",
    "model.trees",
    "model.weights",
    "optimizer",
    "saved optimizer",
    "optimizer.iterations",
    "optimizer.slots",
    "optimizer settings",
    "schedule",
    "scaler",
    "averaged model",
    "declared",
    "rng",
]
#: The hint of an optimizer whose state a file that was read holds.
SAVED_OPTIMIZER: RestoreHint = "saved optimizer"
#: The kinds of repair of a part that is there, and neither what it was nor what it began with.
ChangeHint = Literal["model", "saved buffers", "optimizer"]
PartStanding = Literal["not restored", "reset", "different"]


class PartValue(NamedTuple):
    """The value of a part of the state that is there, as far as it has one."""

    is_empty: bool
    #: tensors, or entries, in it
    entry_count: int
    #: the norm of its tensors, or its number; None where neither has a meaning
    size: float | str | None


class WrongSave(NamedTuple):
    """The content of a file that should be the model that was trained."""

    content: Literal["rounded", "of another moment", "other weights"]
    #: of a rounded one
    dtype: str = ""
    #: of one of another moment
    saved_at: TrainingPlace | None = None


@dataclass(frozen=True)
class PartFacts(Facts):
    """The facts of a part of the state that a resume did not bring back as it was."""

    part: str
    ranks: tuple[int, ...]
    standing: PartStanding
    resumed_at: TrainingPlace
    #: None where the part is missing
    value: PartValue | None
    expected_value: PartValue | None
    #: whether that is the state that the run itself had saved, and not the baseline's
    expects_own_state: bool
    #: those that are lost with it
    other_parts: tuple[str, ...]


@dataclass(frozen=True)
class PartNotRestored(PartFacts):
    """A part of the state was lost at a resume: it is empty, back at its first value, or another.

    The hint says what usually loses such a part; no file and no moment showed more.
    """

    kind: ClassVar[str] = "part-not-restored"
    check: ClassVar[str] = "state"
    hint: RestoreHint


@dataclass(frozen=True)
class PartChanged(PartFacts):
    """A model or an optimizer was loaded and is not what it was, and nothing shows the reason."""

    kind: ClassVar[str] = "part-changed"
    check: ClassVar[str] = "state"
    hint: ChangeHint


@dataclass(frozen=True)
class WrongModelSaved(PartFacts):
    """The file that was read holds another model than the one that was trained."""

    kind: ClassVar[str] = "wrong-model-saved"
    check: ClassVar[str] = "state"
    saved: WrongSave


@dataclass(frozen=True)
class SavedModelUnused(PartFacts):
    """The file that was read holds the right model, and training goes on with another one."""

    kind: ClassVar[str] = "saved-model-unused"
    check: ClassVar[str] = "state"


@dataclass(frozen=True)
class PartOfOtherMoment(PartFacts):
    """A part of the state came back as it was at an earlier or a later moment than the resume."""

    kind: ClassVar[str] = "part-of-other-moment"
    check: ClassVar[str] = "state"
    moment: TrainingPlace


@dataclass(frozen=True)
class ShardsMisplaced(PartFacts):
    """A sharded part, saved by another number of workers, was not put together as it was."""

    kind: ClassVar[str] = "shards-misplaced"
    check: ClassVar[str] = "state"


@dataclass(frozen=True)
class StructureFacts(Facts):
    """The facts of a model that has another structure after a resume."""

    ranks: tuple[int, ...]
    resumed_at: TrainingPlace
    #: those that are lost with it
    other_parts: tuple[str, ...]


@dataclass(frozen=True)
class UntiedParameters(StructureFacts):
    """Parameters that were one, such as tied weights, are several after a resume."""

    kind: ClassVar[str] = "untied-parameters"
    check: ClassVar[str] = "state"
    parameters: tuple[str, ...]


@dataclass(frozen=True)
class ModelRestructured(StructureFacts):
    """The model has other parameters after a resume: more, fewer, or of other shapes or types."""

    kind: ClassVar[str] = "model-restructured"
    check: ClassVar[str] = "state"
    parameter_count: int
    baseline_parameter_count: int
    #: the names of those that it had, and has no more; none where these are not known
    missing_parameters: tuple[str, ...]
    #: likewise of those that it had not
    added_parameters: tuple[str, ...]


@dataclass(frozen=True)
class GeneratorCopied(Facts):
    """Ranks went on with the random generator of another rank, and draw its numbers."""

    kind: ClassVar[str] = "generator-copied"
    check: ClassVar[str] = "rank-randomness"
    generator: str
    ranks: tuple[int, ...]
    owner_rank: int
    epoch: int


@dataclass(frozen=True)
class UnequalReplicas(Facts):
    """The copies of a part of the state, such as the model, are no longer equal on all ranks."""

    kind: ClassVar[str] = "unequal-replicas"
    check: ClassVar[str] = "replicas"
    part: str
    attempt: int
    #: where ranks were first seen to differ
    epoch: int
    step: int
    moment: str
    #: the epochs whose checkpoints were committed with it
    checkpoint_epochs: tuple[int, ...]
