"""Slurm's controller is ended, and started again with its saved state."""

from pydantic import Field

from chaos.extensions.slurm.faults.queue import QueueFault
from chaos.faults.world import Outcome, Target, WorkerRelease, World

ANSWER_TIMEOUT_S = 30.0


class RestartSlurmctld(QueueFault):
    """End slurmctld (SIGTERM), and start it again later from its `StateSaveLocation`.

    Running steps need no controller, so training goes on. Landed when its process is gone and the
    new one answers. One that is killed within five seconds of a job's start starts the job a second
    time (seen with 22.05).
    """

    ends_attempt = "never"
    sentence = "slurmctld was restarted {place}"
    target_text = "slurmctld"
    releases_worker_itself = True

    down_s: float = Field(default=1.0, ge=0, le=50, description="seconds until the next one starts")

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """End it while a worker is held, let training go on, and start the next one in time."""
        del target
        queue = self.find_queue(world)
        ended_pid = queue.stop_daemon()
        release(None)
        world.wait_seconds(self.down_s)  # if the run ends meanwhile, it is started at once
        started_pid = queue.start_daemon(within_s=ANSWER_TIMEOUT_S)
        if started_pid is None:
            return Outcome(
                "info", f"slurmctld {ended_pid} has ended, and none answers in its place"
            )
        return Outcome("ok", f"slurmctld {ended_pid} is gone, and slurmctld {started_pid} answers")

    def __str__(self) -> str:
        return f"restart_slurmctld (down for {self.down_s:g} s)"
