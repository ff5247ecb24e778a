"""The process that runs the user's script dies, and is started again."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from chaos.faults.base import SAFE, Fault
from chaos.faults.world import Outcome, Release, Target, World

PROOF_WITHIN_S = 15.0


class KillDriver(Fault):
    """End the driver; the harness starts the script again, as a scheduler or a person does.

    Ray Train continues from its snapshot in the run's storage, which it finds by the name that the
    script gives the run: with another name at each start, or none, it begins anew. Landed when the
    driver's process is gone.
    """

    family = "control"
    ends_attempt = "always"
    on_shared_cluster = SAFE
    sentence = "the driver was killed {place} and started again"
    whom = "the job's own driver"
    ends_driver = True

    env: dict[str, str] = Field(
        default={},
        description="variables that are other ones at the new start, such as the id that a "
        "scheduler gives each submission (`SKYPILOT_TASK_ID`, `SLURM_JOB_ID`)",
    )
    rank: ClassVar[None] = None

    @property
    def env_again(self) -> Mapping[str, str]:
        """The variables of the new start."""
        return self.env

    def inject(self, world: World, target: Target, release: Release) -> Outcome:
        """End the driver while a worker of it is held."""
        del release  # the gate goes down with the worker, and that with its driver
        pid = world.end_driver()
        if not world.worker_is_gone(target, within_s=PROOF_WITHIN_S):
            return Outcome("info", f"driver {pid} was killed, and rank {target.rank} still runs")
        return Outcome("ok", f"driver {pid} is gone, and its workers with it")

    def __str__(self) -> str:
        named = ", ".join(f"{name}={value}" for name, value in self.env.items())
        return f"kill_driver (then {named})" if named else "kill_driver"
