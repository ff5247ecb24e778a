"""Facts of findings about the files that a job leaves, entry by entry."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from chaos.check.kinds.base import Facts
from chaos.model.places import TrainingPlace


class EntryValue(NamedTuple):
    """The value of an entry of a file."""

    #: tensors, numbers or lines in it
    item_count: int
    #: the norm of its numbers, or its number; None where neither has a meaning
    size: float | str | None
    #: the first of its own names; empty where it has none
    first_name: str


@dataclass(frozen=True)
class EntryFacts(Facts):
    """The facts of an entry of a file that is not the baseline's."""

    file: str
    #: empty where the file holds nothing else
    entry: str
    #: the one that wrote it
    rank: int
    written_at: TrainingPlace
    value: EntryValue
    expected_value: EntryValue
    #: whether it grows from save to save, as a history does
    is_growing: bool
    #: those of the same file that differ as well
    other_entries: tuple[str, ...]


@dataclass(frozen=True)
class FileEntryDiffers(EntryFacts):
    """An entry of a file that the job saved is not the baseline's at the same place."""

    kind: ClassVar[str] = "file-entry-differs"
    check: ClassVar[str] = "artifacts"


@dataclass(frozen=True)
class FinalTableDiffers(EntryFacts):
    """A table of the job, as it was left at the end, is not the baseline's."""

    kind: ClassVar[str] = "final-table-differs"
    check: ClassVar[str] = "artifacts"


@dataclass(frozen=True)
class FileWrittenElsewhere(EntryFacts):
    """A file that keeps the best was written last at another place in training."""

    kind: ClassVar[str] = "file-written-elsewhere"
    check: ClassVar[str] = "artifacts"
    expected_at: TrainingPlace


@dataclass(frozen=True)
class FileNeverWritten(Facts):
    """A file that the job leaves without a fault was never written."""

    kind: ClassVar[str] = "file-never-written"
    check: ClassVar[str] = "artifacts"
    file: str
    #: the one that writes it in the baseline
    rank: int
    expected_at: TrainingPlace
