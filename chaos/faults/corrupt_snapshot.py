"""The file in which Ray Train keeps its list of checkpoints is cut off while it is written."""

from typing import ClassVar

from pydantic import Field, PositiveInt

from chaos.faults.storage import StorageFault


class CorruptSnapshot(StorageFault):
    """Keep the first half of the next snapshots that Ray's controller writes.

    Ray 2.60 overwrites `checkpoint_manager_snapshot.json` in place at every commit. A half that is
    never read has no effect; a controller that starts on a half cannot continue. Landed when the
    wrapped file system has written a half.
    """

    ends_attempt = "never"
    sentence = "the list of checkpoints was cut in half"

    times: PositiveInt = Field(default=1, description="snapshots that are cut off, in a row")
    rank: ClassVar[None] = None  # it is the controller's file, whichever rank is at the place

    def __str__(self) -> str:
        return f"corrupt_snapshot (x{self.times})"
