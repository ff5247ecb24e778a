"""A save of the job's own fails, as it does when the disk is full."""

from chaos.faults.base import OrderedFault
from chaos.faults.order import FailWrite
from chaos.faults.world import Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 30.0


class FailSave(OrderedFault):
    """Raise `OSError` (no space left) out of the write at the place, in the thread that saves.

    For the moments of a save. In a save beside training it ends the save, and the attempt only if
    the job asks how the save ended. Landed when it was raised.
    """

    ends_attempt = "perhaps"
    sentence = "rank {rank} had no room left {place}"
    fails_save = True

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        order = FailWrite()
        release(order=order)
        if not world.has_obeyed(order, within_s=PROOF_WITHIN_S):
            return Outcome("info", f"rank {target.rank} was ordered to fail, and did not")
        return Outcome("ok", f"a write of rank {target.rank} has raised OSError")

    def __str__(self) -> str:
        return "fail_save"
