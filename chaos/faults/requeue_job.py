"""An operator, or a script, puts a running job back into the queue."""

from pydantic import Field

from chaos.faults.base import SAFE
from chaos.faults.queue import QueueFault
from chaos.faults.world import Outcome, Release, Target, World

PROOF_WITHIN_S = 60.0  # Slurm's KillWait is 30 s, unless a site says otherwise
SEEN_S = 1.0  # for which the failed start can be looked at
ENDS_WITHIN_S = 0.3  # a process without a handler of SIGTERM ends in milliseconds


class RequeueJob(QueueFault):
    """Requeue the job (`scontrol requeue`); with `held_s` it is held there meanwhile.

    Slurm sends SIGTERM to all its processes, and SIGKILL `KillWait` later (5 s here). Training goes
    on in between, where it handles the signal. Landed when the worker has ended. On a Slurm that
    chaos did not start it is done to the run's own job, by the rights of its user.

    With `prolog_fails` the next start fails before its script begins: Slurm drains the node,
    requeues the job and holds it (22.05). As an operator would, chaos then gives back the node and
    releases the job, whose `SLURM_RESTART_COUNT` is two higher than at its last training.
    """

    ends_attempt = "always"
    on_shared_cluster = SAFE
    sentence = "the job was requeued {place}"

    held_s: float = Field(
        default=0.0, ge=0, le=600, description="seconds for which the job is held in the queue"
    )
    prolog_fails: bool = Field(
        default=False, description="the prolog of its next start fails, and drains the node"
    )

    def inject(self, world: World, target: Target, release: Release) -> Outcome:
        """Requeue the job while a worker is held, and let it handle the signal."""
        queue = world.queue()
        if self.prolog_fails:
            queue.fail_prolog()
        queue.requeue(is_held=self.held_s > 0)
        # A worker without a handler ends at its place; one that has one goes on to its end.
        is_gone = world.worker_is_gone(target, within_s=ENDS_WITHIN_S)
        release()
        is_gone = is_gone or world.worker_is_gone(target, within_s=PROOF_WITHIN_S)
        if self.held_s:
            world.let_pass(self.held_s)
            queue.release()
        name = f"pid {target.pid} of rank {target.rank}"
        if not is_gone:
            late = f"{name} still runs {PROOF_WITHIN_S:g} s after the job was requeued"
            return Outcome("fail", late)
        gone = f"the job was requeued, and {name} is gone"
        return self._drained(world, gone) if self.prolog_fails else Outcome("ok", gone)

    def _drained(self, world: World, so_far: str) -> Outcome:
        """Wait for the prolog that fails, and undo what Slurm does then."""
        queue = world.queue()
        node = queue.drained(within_s=PROOF_WITHIN_S)
        if node is None:
            late = f"no node was drained within {PROOF_WITHIN_S:g} s"
            return Outcome("fail", f"{so_far}; {late}")
        world.let_pass(SEEN_S)
        queue.repair(node)
        queue.release()
        return Outcome("ok", f"{so_far}; then its prolog failed, and {node} was drained")

    def __str__(self) -> str:
        held = f"held for {self.held_s:g} s" if self.held_s else ""
        how = ", ".join(filter(None, (held, "its prolog fails" if self.prolog_fails else "")))
        return f"requeue_job ({how})" if how else "requeue_job"
