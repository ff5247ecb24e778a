"""Half of a checkpoint's file is in storage, and the rest is not."""

from pydantic import Field, NonNegativeInt

from chaos.faults.base import Ends
from chaos.faults.storage import StorageFault


class TornCheckpoint(StorageFault):
    """Keep the first half of the rank's next upload, and drop the rest without an error.

    Ray commits the checkpoint, and nothing is charged until a load finds half of it. With
    `worker_dies` the worker is killed at the half instead, so that the checkpoint is never
    committed: one failure. Landed when the wrapped file system has written a half.
    """

    at_random = ({"worker_dies": True},)
    own_file_fault = "kill_worker at `moment: saving`"
    sentence = "a checkpoint was cut in half"

    file: str = Field(
        default="*", min_length=1, description="which files of the upload, by name; `*` matches any"
    )
    worker_dies: bool = False
    rank: NonNegativeInt | None = Field(
        default=None, description="whose upload; left out: the trigger's rank"
    )

    @property
    def ends_attempt(self) -> Ends:  # type: ignore[override] # it depends on a setting
        """Whether the attempt ends: a half that is never loaded ends none."""
        return "perhaps" if self.worker_dies else "never"

    def __str__(self) -> str:
        return "torn_checkpoint" + (" (worker dies)" if self.worker_dies else "")
