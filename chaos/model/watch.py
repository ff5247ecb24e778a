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
        description="digests of model, optimizer, schedule, random numbers and what the job "
        "declares, as each epoch is entered and left",
    )
    every: PositiveInt = Field(
        default=8, description="state is also looked at after every so many steps of an epoch"
    )
    entries: Literal["epochs", "steps"] = Field(
        default="epochs",
        description="`steps`: before every step state is looked at as if an epoch was entered with "
        "it; the baseline of a job with `align: steps` is watched so, for a restart of one may go "
        "on from any step",
    )
    inputs: bool = Field(
        default=True, description="digests of what the model is called with in training"
    )
    files: bool = Field(
        default=True,
        description="files that `torch.save` and `torch.load` touch, what ranks upload, and what "
        "storage holds; a job that keeps its checkpoints in a directory of its own is followed "
        "through a restart only with it",
    )
