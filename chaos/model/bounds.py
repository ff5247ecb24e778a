"""How far a run may go from what is expected of it: bounds, tolerances, charges."""

from pydantic import Field, NonNegativeInt

from chaos.record import Record


class Bound(Record):
    """An upper limit."""

    max: float = Field(ge=0)


class Tolerance(Record):
    """How far a loss may lie from the baseline's: `absolute + relative * |baseline|`."""

    absolute: float = Field(default=0.0, ge=0)
    relative: float = Field(default=0.0, ge=0)


class Charges(Record):
    """How many times Ray may charge each retry budget."""

    failures: NonNegativeInt = 0
    preemptions: NonNegativeInt = 0
