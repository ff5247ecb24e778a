"""The base of what a person gives in numbers: endless ones mean nothing to a forecast."""

from pydantic import ConfigDict

from chaos.record import Record


class Figures(Record):
    """A record that refuses infinity and what is no number."""

    model_config = ConfigDict(allow_inf_nan=False)
