"""The attempt and rank of this process, for wrapped storage, which is the same in all processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class ProcessIdentity:
    """The identity of this process."""

    attempt: int = 0
    #: None in Ray's controller
    rank: int | None = None
    #: counts the uploads that this process began
    upload_count: int = 0
    #: Ray's retention is about to remove a checkpoint
    is_removing: bool = False

    @contextmanager
    def mark_removal(self) -> Iterator[None]:
        """Set `is_removing` while the context lasts."""
        self.is_removing = True
        try:
            yield
        finally:
            self.is_removing = False


HERE = ProcessIdentity()
