"""Slurm's controller is ended, and started again with its saved state."""

from pydantic import Field

from chaos.faults.queue import QueueFault
from chaos.faults.world import Outcome, Release, Target, World

PROOF_WITHIN_S = 30.0


class RestartSlurmctld(QueueFault):
    """End slurmctld (SIGTERM), and start it again later from its `StateSaveLocation`.

    Running steps need no controller, so training goes on. Landed when its process is gone and the
    new one answers. One that is killed within five seconds of a job's start knows only that the
    job waits, and starts it a second time (seen with 22.05): it saves its state that seldom.
    """

    ends_attempt = "never"
    sentence = "slurmctld was restarted {place}"
    whom = "slurmctld"
    lets_go_first = True

    down_s: float = Field(default=1.0, ge=0, le=50, description="seconds until the next one starts")

    def inject(self, world: World, target: Target, release: Release) -> Outcome:
        """End it while a worker is held, let training go on, and start the next one in time."""
        del target
        queue = world.queue()
        ended = queue.stop()
        release(None)
        world.let_pass(self.down_s)  # if the run ends meanwhile, it is started at once
        started = queue.start(within_s=PROOF_WITHIN_S)
        if started is None:
            return Outcome("info", f"slurmctld {ended} has ended, and none answers in its place")
        return Outcome("ok", f"slurmctld {ended} is gone, and slurmctld {started} answers")

    def __str__(self) -> str:
        return f"restart_slurmctld (down for {self.down_s:g} s)"
