"""The base of everything that is read from or written to a file people see."""

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A frozen value that refuses unknown keys and does not convert types.

    Strictness is for the reader of a scenario: `epoch: "2"` is a mistake to
    point at, not a string to be turned into a number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, ser_json_inf_nan="strings")
