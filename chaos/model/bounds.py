"""Bounds, tolerances and charges that a scenario expects."""

from pydantic import Field, NonNegativeInt

from chaos.record import Record


class Bound(Record):
    """An upper limit."""

    max: float = Field(ge=0)


class Tolerance(Record):
    """The largest distance of a loss from the baseline's: `absolute + relative * |baseline|`."""

    absolute: float = Field(default=0.0, ge=0)
    relative: float = Field(default=0.0, ge=0)


class Charges(Record):
    """The number of times that Ray may charge each retry budget."""

    failures: NonNegativeInt = 0
    preemptions: NonNegativeInt = 0
