"""Ray Train's controller dies; driver and cluster live on."""

from typing import ClassVar

from chaos.faults.base import Fault, SharedCluster
from chaos.faults.world import Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 15.0


class KillController(Fault):
    """End the process of Ray Train's controller actor.

    In Ray 2.60 `fit()` raises at once. Landed when the process is gone. The embedded backend has
    none to end.
    """

    family = "control"
    ends_attempt = "always"
    on_shared_cluster = SharedCluster(
        "never", "Ray's controller runs on chaos's own node, which is spared"
    )
    sentence = "Ray's controller was killed {place}"
    target_text = "the job's own controller"

    rank: ClassVar[None] = None

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        del release  # its workers go with it
        pid = world.end_controller()
        if not world.await_worker_end(target, within_s=PROOF_WITHIN_S):
            return Outcome("info", f"controller {pid} was killed, and its workers still run")
        return Outcome("ok", f"controller {pid} is gone, and its workers with it")

    def __str__(self) -> str:
        return "kill_controller"
