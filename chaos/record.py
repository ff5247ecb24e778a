"""The base of everything that is read from or written to a file people see."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A frozen value that refuses unknown keys and does not convert types.

    Strictness is for the reader of a scenario: `epoch: "2"` is a mistake to
    point at, not a string to be turned into a number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, ser_json_inf_nan="strings")

    def replace(self, **fields: Any) -> Self:  # noqa: ANN401 (a field's own type)
        """Return a copy with other values of these fields, which are not validated.

        Raises `TypeError` where a name is no field: `model_copy` would take a misspelt one.
        """
        unknown = fields.keys() - type(self).model_fields.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        return self.model_copy(update=fields)
