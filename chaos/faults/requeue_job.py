"""An operator, or a script, puts a running job back into the queue."""

from pydantic import Field

from chaos.faults.base import SAFE
from chaos.faults.queue import QueueFault
from chaos.faults.world import Outcome, Release, Target, World

PROOF_WITHIN_S = 60.0  # Slurm's KillWait is 30 s, unless a site says otherwise
ENDS_WITHIN_S = 0.3  # a process without a handler of SIGTERM ends in milliseconds


class RequeueJob(QueueFault):
    """Requeue the job (`scontrol requeue`); with `held_s` it is held there meanwhile.

    Slurm sends SIGTERM to all its processes, and SIGKILL `KillWait` later (5 s here). Training goes
    on in between, where it handles the signal. Landed when the worker has ended. On a Slurm that
    chaos did not start it is done to the run's own job, by the rights of its user.
    """

    ends_attempt = "always"
    on_shared_cluster = SAFE
    sentence = "the job was requeued {place}"

    held_s: float = Field(
        default=0.0, ge=0, le=600, description="seconds for which the job is held in the queue"
    )

    def inject(self, world: World, target: Target, release: Release) -> Outcome:
        """Requeue the job while a worker is held, and let it handle the signal."""
        queue = world.queue()
        queue.requeue(is_held=self.held_s > 0)
        # A worker without a handler ends at its place; one that has one goes on to its end.
        is_gone = world.worker_is_gone(target, within_s=ENDS_WITHIN_S)
        release()
        is_gone = is_gone or world.worker_is_gone(target, within_s=PROOF_WITHIN_S)
        if self.held_s:
            world.let_pass(self.held_s)
            queue.release()
        name = f"pid {target.pid} of rank {target.rank}"
        if is_gone:
            return Outcome("ok", f"the job was requeued, and {name} is gone")
        return Outcome("fail", f"{name} still runs {PROOF_WITHIN_S:g} s after the job was requeued")

    def __str__(self) -> str:
        return f"requeue_job (held for {self.held_s:g} s)" if self.held_s else "requeue_job"
