"""A worker hangs: its process lives and answers, and its training goes no further."""

from typing import Literal

from pydantic import Field

from chaos.faults.base import OrderedFault
from chaos.faults.order import Hang
from chaos.faults.world import Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 30.0


class HangWorker(OrderedFault):
    """Block the train function at the place, until its process is killed.

    `where: python` waits in the interpreter; `where: collective` in native code of
    torch.distributed, for a peer that never comes. Either way the rank never enters its next
    collective, and on Ray its actor still answers. Landed when the worker has reported that it goes
    no further.
    """

    ends_attempt = "perhaps"
    sentence = "rank {rank} hung {place}"

    where: Literal["python", "collective"] = "python"
    ranks: Literal["one", "all"] = Field(
        default="one", description="`all`: every rank, at the same place"
    )

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        order = Hang(self.where)
        release(order=order)
        library = "Python" if self.where == "python" else "torch.distributed"
        if world.has_obeyed(order, within_s=PROOF_WITHIN_S):
            return Outcome("ok", f"rank {target.rank} hangs in {library}")
        return Outcome("fail", f"rank {target.rank} was ordered to hang in {library}, and did not")

    def __str__(self) -> str:
        return f"hang_worker ({self.where}{', all ranks' if self.ranks == 'all' else ''})"
