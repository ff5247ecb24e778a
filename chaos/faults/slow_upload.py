"""Storage answers late, or takes few bytes a second."""

from typing import Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from chaos.faults.base import SecondsRange
from chaos.faults.storage import StorageFault


class SlowUpload(StorageFault):
    """Make the rank's next uploads slow; the job only waits.

    Landed when the wrapped file system has waited. The request that puts an object of the job's own
    (`moment: putting`) waits for `delay_s`.
    """

    own_objects = "also"

    ends_attempt = "never"
    at_random = ({"delay_s": SecondsRange(0.1, 0.5)},)
    sentence = "an upload was slow"

    bytes_per_s: PositiveInt | None = Field(
        default=None, description="all files of the upload together"
    )
    delay_s: float | None = Field(
        default=None, gt=0, le=600, description="before the first byte of the upload"
    )
    times: PositiveInt = Field(default=1, description="uploads of the rank that are slow")
    rank: NonNegativeInt | None = Field(
        default=None, description="whose uploads; left out: the trigger's rank"
    )

    @model_validator(mode="after")
    def _names_one_pace(self) -> Self:
        if (self.bytes_per_s is None) == (self.delay_s is None):
            raise ValueError("slow_upload needs either bytes_per_s or delay_s")
        return self

    @property
    def fits_objects(self) -> bool:
        """Whether it is late: what one request sends comes as its client has it."""
        return self.delay_s is not None

    def __str__(self) -> str:
        pace = f"{self.bytes_per_s} bytes/s" if self.delay_s is None else f"{self.delay_s:g} s late"
        return f"slow_upload ({pace})"
