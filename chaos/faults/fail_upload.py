"""Storage refuses an upload, as it does when it is down or a credential has run out."""

from pydantic import Field, NonNegativeInt, PositiveInt

from chaos.faults.armed import arm
from chaos.faults.world import Outcome, Release, Victim, World
from chaos.record import Record


class FailUpload(Record):
    """Make the rank's next uploads raise `OSError`.

    Ray 2.60 tries an upload again by itself, up to three times, where the
    error's text is one of S3's passing ones (`AWS Error SLOW_DOWN`); any other
    makes `report()` raise, which costs one failure. Landed when the wrapped
    file system raised it.
    """

    times: PositiveInt = Field(default=1, description="uploads of the rank that fail, in a row")
    error: str = Field(
        default="storage refused the write",
        min_length=1,
        description="the error's text; `AWS Error SLOW_DOWN` is one that Ray tries again",
    )
    rank: NonNegativeInt | None = Field(
        default=None, description="whose uploads; left out: the rank that the trigger names"
    )

    def strike(self, world: World, victim: Victim, release: Release) -> Outcome:
        """Arm it while the worker is held."""
        return arm(world, victim, release)

    def __str__(self) -> str:
        return f"fail_upload (x{self.times})"
