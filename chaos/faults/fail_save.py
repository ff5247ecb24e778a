"""A save of the job's own fails, as it does when the disk is full."""

from typing import ClassVar

from chaos.faults.base import SAFE, Fault
from chaos.faults.order import FailWrite
from chaos.faults.world import Outcome, Release, Target, World

PROOF_WITHIN_S = 30.0


class FailSave(Fault):
    """Raise `OSError` (no space left) out of the write at the place, in the thread that saves.

    For `moment: saving` and `moment: renaming`. In a save beside training it ends the save, and the
    attempt only if the job asks how the save ended. Landed when it was raised.
    """

    family = "worker"
    ends_attempt = "perhaps"
    on_shared_cluster = SAFE
    needs = None
    sentence = "rank {rank} had no room left {place}"
    is_ordered = True
    fails_save = True

    rank: ClassVar[None] = None

    def inject(self, world: World, target: Target, release: Release) -> Outcome:
        """Release the rank with the order to raise, and wait until it has."""
        order = FailWrite()
        release(order=order)
        if not world.has_obeyed(order, within_s=PROOF_WITHIN_S):
            return Outcome("info", f"rank {target.rank} was ordered to fail, and did not")
        return Outcome("ok", f"a write of rank {target.rank} has raised OSError")

    def __str__(self) -> str:
        return "fail_save"
