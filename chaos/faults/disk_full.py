"""There is no room left on the storage."""

from pydantic import Field, NonNegativeInt, PositiveInt

from chaos.faults.storage import StorageFault


class DiskFull(StorageFault):
    """Let the rank's next uploads write so many bytes, and raise `ENOSPC` at the next one.

    `report()` raises, which costs one failure, and what was written stays. Landed when the wrapped
    file system raised it.
    """

    at_random = ({"after_bytes": 1000},)
    own_file_fault = "fail_save at `moment: saving`"
    sentence = "the disk was full"

    after_bytes: NonNegativeInt = Field(
        default=0, description="room that is left for each of these uploads"
    )
    times: PositiveInt = Field(
        default=1, description="uploads of the rank that fail, until there is room again"
    )
    rank: NonNegativeInt | None = Field(
        default=None, description="whose uploads; left out: the trigger's rank"
    )

    def __str__(self) -> str:
        return f"disk_full (after {self.after_bytes} bytes)"
