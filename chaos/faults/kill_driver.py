"""The process that runs the user's script dies, and is started again."""

from typing import ClassVar

from chaos.faults.base import SAFE, StartsScript
from chaos.faults.world import LauncherFeature, Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 15.0


class KillDriver(StartsScript):
    """End the driver; the harness starts the script again, as a scheduler or a person does.

    Ray Train continues from its snapshot in the run's storage, which it finds by the name that the
    script gives the run. With another name, or none, it begins anew. Landed when the driver's
    process is gone.
    """

    ends_attempt = "always"
    on_shared_cluster = SAFE
    sentence = "the driver was killed {place} and started again"
    target_text = "the job's own driver"
    ends_driver = True
    needs: ClassVar[LauncherFeature | None] = "driver"

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        pid = world.end_driver()
        # Else the gate goes down with the worker, and that with its driver.
        if world.workers_outlive_driver():
            release()
        if not world.await_worker_end(target, within_s=PROOF_WITHIN_S):
            return Outcome("info", f"driver {pid} was killed, and rank {target.rank} still runs")
        return Outcome("ok", f"driver {pid} is gone, and its workers with it")

    def __str__(self) -> str:
        return f"kill_driver (then {', '.join(self.env_settings)})" if self.env else "kill_driver"
