"""A process of a rank's data loader dies: out of memory, or of a signal to the process group."""

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from chaos.faults.base import SAFE, Fault
from chaos.faults.world import Outcome, RefusedError, Target, WorkerRelease, World

# torch 2.13 gives this name to each process of a loader, whatever started it.
NAME = "pt_data_worker"
# For the loader's processes to fill their queue, after which they wait and write nothing.
IDLE_S = 0.2
PROOF_WITHIN_S = 15.0


class KillLoader(Fault):
    """End processes of a rank's torch data loader (`num_workers`); landed when they are gone.

    torch raises `RuntimeError` in the rank's own process as it next waits for a batch of theirs.
    Where the job lets it through, it ends the attempt; where no such batch is left, nothing
    follows.
    """

    family = "worker"
    ends_attempt = "perhaps"
    on_shared_cluster = SAFE
    needs = None
    sentence = "a loader process of rank {rank} was killed {place}"
    target_text = "the loader processes of rank {rank}"

    signal: Literal["KILL", "TERM"] = "KILL"
    processes: Literal["one", "all"] = Field(
        default="one", description="`one`: the oldest; `all`: every one, of every loader"
    )
    rank: ClassVar[None] = None

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """Kill while the rank is held, once its loader has had time to fill its queue.

        A process that is killed as it writes to the queue may leave half a batch there. The signal
        is not the rank's own: of its parent's SIGTERM torch 2.13 makes an exit without an error.
        """
        del release  # the gate opens by itself once this returns
        world.wait_seconds(IDLE_S)
        pids = world.list_descendants(target, name=NAME)
        if not pids:
            raise RefusedError(f"rank {target.rank} has no loader process there")
        targets = [
            replace(target, pid=pid) for pid in pids[: 1 if self.processes == "one" else None]
        ]
        for process in targets:
            world.signal_worker(process, self.signal)
        alive = [p.pid for p in targets if not world.await_worker_end(p, within_s=PROOF_WITHIN_S)]
        loaders_text = f"of {len(pids)} loader processes of rank {target.rank}"
        if not alive:
            return Outcome("ok", f"{len(targets)} {loaders_text} are gone")
        some_died = len(alive) < len(targets)
        words = f"after SIG{self.signal} {len(alive)} {loaders_text} still run"
        return Outcome("info" if some_died else "fail", words)

    def __str__(self) -> str:
        return (
            f"kill_loader (SIG{self.signal}{', all processes' if self.processes == 'all' else ''})"
        )
