"""An operator, or a script, puts a running job back into the queue."""

from pydantic import Field

from chaos.extensions.slurm.faults.queue import QueueFault
from chaos.faults.base import SAFE
from chaos.faults.world import Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 60.0  # Slurm's KillWait is 30 s, unless a site says otherwise
SEEN_S = 1.0  # for which the failed start can be looked at
ENDS_WITHIN_S = 0.3  # a process without a handler of SIGTERM ends in milliseconds


class RequeueJob(QueueFault):
    """Requeue the job (`scontrol requeue`); with `held_s` it is held there meanwhile.

    Slurm sends SIGTERM to all its processes, and SIGKILL `KillWait` later (5 s here); training goes
    on in between. Landed when the worker has ended. On a Slurm that chaos did not start it is done
    to the run's own job, by the rights of its user.

    With `prolog_fails` the next start fails before its script begins: Slurm drains the node,
    requeues the job and holds it (22.05). chaos then gives back the node and releases the job,
    whose `SLURM_RESTART_COUNT` is two higher than at its last training.
    """

    ends_attempt = "always"
    on_shared_cluster = SAFE
    sentence = "the job was requeued {place}"

    held_s: float = Field(
        default=0.0, ge=0, le=600, description="seconds that it is held in the queue"
    )
    prolog_fails: bool = Field(
        default=False, description="the prolog of its next start fails, and drains the node"
    )

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """Requeue the job while a worker is held, and let it handle the signal."""
        queue = self.find_queue(world)
        if self.prolog_fails:
            queue.fail_prolog()
        queue.requeue(is_held=self.held_s > 0)
        # A worker without a handler ends at its place; one that has one goes on to its end.
        is_gone = world.await_worker_end(target, within_s=ENDS_WITHIN_S)
        release()
        is_gone = is_gone or world.await_worker_end(target, within_s=PROOF_WITHIN_S)
        if self.held_s:
            world.wait_seconds(self.held_s)
            queue.release()
        name = f"pid {target.pid} of rank {target.rank}"
        if not is_gone:
            late_text = f"{name} still runs {PROOF_WITHIN_S:g} s after the job was requeued"
            return Outcome("fail", late_text)
        gone_text = f"the job was requeued, and {name} is gone"
        return self._undo_drain(world, gone_text) if self.prolog_fails else Outcome("ok", gone_text)

    def _undo_drain(self, world: World, requeue_text: str) -> Outcome:
        """Wait for the prolog that fails, and undo what Slurm does then."""
        queue = self.find_queue(world)
        node = queue.wait_for_drain(within_s=PROOF_WITHIN_S)
        if node is None:
            late_text = f"no node was drained within {PROOF_WITHIN_S:g} s"
            return Outcome("fail", f"{requeue_text}; {late_text}")
        world.wait_seconds(SEEN_S)
        queue.repair(node)
        queue.release()
        return Outcome("ok", f"{requeue_text}; then its prolog failed, and {node} was drained")

    def __str__(self) -> str:
        hold_text = f"held for {self.held_s:g} s" if self.held_s else ""
        settings = ", ".join(
            filter(None, (hold_text, "its prolog fails" if self.prolog_fails else ""))
        )
        return f"requeue_job ({settings})" if settings else "requeue_job"
