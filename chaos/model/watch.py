"""The extent to which a job is watched."""

from typing import Literal

from pydantic import Field, PositiveInt

from chaos.record import Record


class Watch(Record):
    """The records of the job beyond its steps, losses and reports.

    What is turned off is not recorded, and the summary of a check that needs it notes that.
    """

    state: bool = Field(
        default=True,
        description="digests of the state, as each epoch is entered and left",
    )
    every: PositiveInt = Field(
        default=8, description="state is also looked at after every so many steps of an epoch"
    )
    entries: Literal["epochs", "steps"] = Field(
        default="epochs",
        description="`steps`: state is looked at before every step, as for the baseline of "
        "a job with `align: steps`",
    )
    inputs: bool = Field(
        default=True, description="digests of what the model is called with in training"
    )
    files: bool = Field(
        default=True,
        description="files that `torch.save` and `torch.load` touch, what ranks upload, and"
        " what storage holds; needed for a job with checkpoints in a directory "
        "of its own",
    )
