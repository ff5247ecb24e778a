"""The fixtures of the core's faults, for the faults of a queue."""

from tests.faults.conftest import inject, world

__all__ = ["inject", "world"]
