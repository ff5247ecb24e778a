"""Which rank of which attempt this process is, for what is not told: storage is one for all."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Here:
    """`rank` is None in Ray's controller; `upload` counts the uploads that this process began.

    `is_removing`: Ray's retention is about to remove a checkpoint.
    """

    attempt: int = 0
    rank: int | None = None
    upload: int = 0
    is_removing: bool = False

    @contextmanager
    def removing(self) -> Iterator[None]:
        """Remove a checkpoint within."""
        self.is_removing = True
        try:
            yield
        finally:
            self.is_removing = False


HERE = Here()
