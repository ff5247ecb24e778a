"""When an op begins: a place in training.

A place is counted as the worker counts it. `epoch` is the number of reports
that every rank has made in the surviving lineage, so 0 is the first. `step`
is the number of optimizer steps since the last report, so `step: 5` is the
moment after the fifth step of that epoch.
"""

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Discriminator, Field, NonNegativeInt, PositiveInt, Tag

from chaos.record import Record

Moment: TypeAlias = Literal["saving", "upload_begin", "upload_end", "reported", "committed"]
MOMENTS: tuple[Moment, ...] = ("saving", "upload_begin", "upload_end", "reported", "committed")


class AtStep(Record):
    """After optimizer step `step` of epoch `epoch` on rank `rank`.

    The rank is held there until every earlier epoch is committed, so a restart
    has one right answer: the commit of epoch `epoch - 1`.
    """

    epoch: NonNegativeInt
    step: PositiveInt
    rank: NonNegativeInt | None = Field(
        default=None, description="left out: drawn from the seed among the job's ranks"
    )

    def __str__(self) -> str:
        return f"epoch {self.epoch}, step {self.step}, rank {self.rank}"


class AtMoment(Record):
    """At one moment of the save or the report that ends epoch `epoch`, on rank `rank`.

    `saving`: the first half of the first file that `torch.save` writes to a path
    in that epoch is on disk, and the rest is not. `upload_begin`: the
    checkpoint's upload is about to begin. `upload_end`: every file is written
    and `report()` has not returned. `reported`: `report()` has returned, and
    the controller, held, has not committed. `committed`: the controller has.
    """

    epoch: NonNegativeInt
    moment: Moment
    rank: NonNegativeInt | None = Field(
        default=None, description="left out: drawn from the seed among the job's ranks"
    )

    def __str__(self) -> str:
        return f"epoch {self.epoch}, {self.moment}, rank {self.rank}"


class AtRecovery(Record):
    """As the train function begins in the attempt after the one that another op struck.

    The rank has started, and has neither read its checkpoint nor made a step.
    It lies before every epoch and step of its attempt.
    """

    recovering_from: NonNegativeInt = Field(
        description="the number of an earlier entry of faults, from 0"
    )
    rank: NonNegativeInt | None = Field(
        default=None, description="left out: drawn from the seed among the job's ranks"
    )
    epoch: ClassVar[int] = 0
    step: ClassVar[int] = 0

    def __str__(self) -> str:
        return f"the recovery from op {self.recovering_from}, rank {self.rank}"


def _kind(value: object) -> str:
    keys = value if isinstance(value, dict) else getattr(value, "__dict__", ())
    return next((kind for kind in ("moment", "recovering_from") if kind in keys), "step")


Trigger: TypeAlias = Annotated[
    Annotated[AtStep, Tag("step")]
    | Annotated[AtMoment, Tag("moment")]
    | Annotated[AtRecovery, Tag("recovering_from")],
    Discriminator(_kind),
]
