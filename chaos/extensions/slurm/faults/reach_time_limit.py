"""A job comes to its time limit, and its queue ends it."""

from chaos.extensions.slurm.faults.queue import QueueFault
from chaos.faults.base import SharedCluster
from chaos.faults.world import Outcome, Target, WorkerRelease, World

# The least time limit is a minute, and Slurm 22.05 looks for jobs beyond theirs every 30 s.
ENDS_WITHIN_S = 120.0


class ReachTimeLimit(QueueFault):
    """Set the job's time limit to a minute, and hold the worker until Slurm ends the job for it.

    Slurm sends SIGTERM to its steps, and SIGKILL `KillWait` later (5 s here); training goes on in
    between. `signal_job` is for what `#SBATCH --signal` asks for. Landed when the worker has ended.
    """

    ends_attempt = "always"
    on_shared_cluster = SharedCluster(
        "never", "a user who has lowered his job's time limit may not raise it again"
    )
    sentence = "the job came to its time limit {place}"

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """Hold the worker at its place until the limit is over."""
        name = f"pid {target.pid} of rank {target.rank}"
        if not self.find_queue(world).reach_time_limit(within_s=ENDS_WITHIN_S):
            return Outcome(
                "fail", f"the job still runs {ENDS_WITHIN_S:g} s after its limit was set"
            )
        release()
        if world.await_worker_end(target, within_s=ENDS_WITHIN_S):
            return Outcome("ok", f"the time limit is over, and {name} is gone")
        return Outcome("fail", f"{name} still runs after the job's time limit")

    def __str__(self) -> str:
        return "reach_time_limit"
