"""Places in training."""

from typing import NamedTuple


class Place(NamedTuple):
    """A place in training: `step` steps of `epoch` are done, and the next one is to come."""

    epoch: int
    step: int

    def __str__(self) -> str:
        return f"epoch {self.epoch}, step {self.step}"


START = Place(0, 0)
