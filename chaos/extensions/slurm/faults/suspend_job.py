"""A job is suspended, as by a preemption with `PreemptMode=SUSPEND`, and goes on later."""

from pydantic import Field

from chaos.extensions.slurm.faults.queue import QueueFault
from chaos.faults.world import Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 10.0


class SuspendJob(QueueFault):
    """Suspend the job (`scontrol suspend`), and resume it later.

    Slurm stops all processes of the job's steps. Landed when the worker's is stopped. Healed after
    `for_s` seconds, and at the end of the run in any case.
    """

    ends_attempt = "perhaps"
    sentence = "the job was suspended {place}"
    stops_progress = True

    for_s: float = Field(default=3.0, gt=0, le=600, description="seconds until it is resumed")

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """Suspend the job while a worker is held; the gate opens on a stopped process."""
        del release
        self.find_queue(world).suspend()
        name = f"pid {target.pid} of rank {target.rank}"
        if world.await_worker_stop(target, within_s=PROOF_WITHIN_S):
            return Outcome("ok", f"the job is suspended, and {name} is stopped")
        return Outcome("fail", f"{name} is not stopped after {PROOF_WITHIN_S:g} s")

    def heal(self, world: World, target: Target) -> str:
        del target
        waited = world.wait_seconds(self.for_s)
        self.find_queue(world).resume()
        time_text = f"after {self.for_s:g} s" if waited else "at the end of the run"
        return f"the job was resumed {time_text}"

    def __str__(self) -> str:
        return f"suspend_job ({self.for_s:g} s)"
