"""Newly written files cannot be seen yet, as on storage that is only eventually consistent."""

from pydantic import Field, NonNegativeInt

from chaos.faults.storage import StorageFault


class DelayedVisibility(StorageFault):
    """Hide the rank's next upload from all that list or read it, for a time.

    Only a reader within that time is harmed: a worker that resumes from the hidden checkpoint gets
    `FileNotFoundError`, which costs one failure for each attempt that tries. The time runs from the
    first look, so that a restart falls into it. Ray's retention still finds the files that it is to
    remove. Landed when the wrapped file system has refused a reader.

    An object that the job puts itself (`moment: putting`) is left out of listings, and is found by
    its name. Landed when a listing came without it.
    """

    own_objects = "also"

    sentence = "what was written could not be seen"

    for_s: float = Field(gt=0, le=600, description="seconds from when somebody first looks for it")
    rank: NonNegativeInt | None = Field(
        default=None, description="whose upload; left out: the trigger's rank"
    )

    def __str__(self) -> str:
        return f"delayed_visibility ({self.for_s:g} s)"
