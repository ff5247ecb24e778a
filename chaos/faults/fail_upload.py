"""Storage refuses an upload, as it does when it is down or a credential has run out."""

from pydantic import Field, NonNegativeInt, PositiveInt

from chaos.faults.storage import StorageFault


class FailUpload(StorageFault):
    """Make the rank's next uploads raise `OSError`.

    Ray 2.60 tries an upload up to three times more where the error's text is one of S3's passing
    ones (`AWS Error SLOW_DOWN`). Any other makes `report()` raise, which costs one failure. Landed
    when the wrapped file system raised it.

    An object that the job puts itself (`moment: putting`) is refused as with an expired credential
    (`AccessDenied`), which no client tries again.
    """

    own_objects = "also"

    at_random = ({},)
    own_file_fault = "fail_save at `moment: saving`"
    sentence = "an upload failed"

    times: PositiveInt = Field(default=1, description="uploads of the rank that fail, in a row")
    error: str = Field(
        default="storage refused the write",
        min_length=1,
        description="the error's text; `AWS Error SLOW_DOWN` is one that Ray tries again",
    )
    rank: NonNegativeInt | None = Field(
        default=None, description="whose uploads; left out: the trigger's rank"
    )

    def __str__(self) -> str:
        return f"fail_upload (x{self.times})"
