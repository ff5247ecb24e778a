"""The attempt and rank of this process, for wrapped storage, which is the same in all processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Here:
    """The identity of this process: `rank` is None in Ray's controller.

    `upload` counts the uploads that this process began. `is_removing`: Ray's retention is about
    to remove a checkpoint.
    """

    attempt: int = 0
    rank: int | None = None
    upload: int = 0
    is_removing: bool = False

    @contextmanager
    def removing(self) -> Iterator[None]:
        """Set `is_removing` while the context lasts."""
        self.is_removing = True
        try:
            yield
        finally:
            self.is_removing = False


HERE = Here()
