"""The file in which Ray Train keeps its list of checkpoints is cut off while it is written."""

from typing import ClassVar

from pydantic import Field, PositiveInt

from chaos.faults.armed import arm
from chaos.faults.world import Outcome, Release, Victim, World
from chaos.record import Record


class CorruptSnapshot(Record):
    """Keep the first half of the next snapshots that Ray's controller writes.

    Ray 2.60 overwrites `checkpoint_manager_snapshot.json` in place at every
    commit. A half that nobody reads costs nothing, and the next snapshot
    mends it; a controller that starts on a half cannot. Landed when the
    wrapped file system has written a half.
    """

    times: PositiveInt = Field(default=1, description="snapshots that are cut off, in a row")
    rank: ClassVar[None] = None  # it is the controller's file, whoever stands at the place

    def strike(self, world: World, victim: Victim, release: Release) -> Outcome:
        """Arm it while the worker is held."""
        return arm(world, victim, release)

    def __str__(self) -> str:
        return f"corrupt_snapshot (x{self.times})"
