"""A fault of another package: every rank but one is killed."""

from typing import ClassVar, Literal

from chaos.faults.base import Fault
from chaos.faults.world import Outcome, RefusedError, Target, WorkerRelease, World

PROOF_WITHIN_S = 10.0


class KillPeers(Fault):
    """Kill every worker of the group but the one that stands at the place.

    A rank that is left alone waits in its next collective for peers that never
    come. Landed when the process of every peer is gone.
    """

    family = "worker"
    ends_attempt = "always"
    takes_others: ClassVar[bool] = True

    signal: Literal["KILL", "TERM"] = "KILL"
    rank: ClassVar[None] = None

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """Kill the peers while the worker is held, and wait until they are gone."""
        del release  # the worker is let go by itself once that is over
        peers = [peer for rank, peer in world.list_targets().items() if rank != target.rank]
        if not peers:
            raise RefusedError(f"rank {target.rank} has no peers")
        for peer in peers:
            world.signal_worker(peer, self.signal)
        alive = [p.rank for p in peers if not world.await_worker_end(p, within_s=PROOF_WITHIN_S)]
        if not alive:
            return Outcome("ok", f"rank {target.rank} is alone: {len(peers)} peers are gone")
        some_died = len(alive) < len(peers)
        return Outcome("info" if some_died else "fail", f"after SIG{self.signal} {alive} still run")

    def __str__(self) -> str:
        return f"kill_peers ({self.signal})"
