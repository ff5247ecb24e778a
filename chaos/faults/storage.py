"""The base of storage faults: armed at their place, and done by the run's wrapped file system.

The harm is done in the process that writes or reads there (`launch/raytrain/wrapped`). So `inject`
arms the fault, lets the held rank go on, and waits until the file system reports the effect.
"""

from typing import ClassVar

from chaos.faults.base import SAFE, Ends, Fault
from chaos.faults.world import LauncherFeature, Outcome, Target, WorkerRelease, World


class StorageFault(Fault):
    """A fault in a rank's uploads, or in the controller's own file."""

    family = "storage"
    ends_attempt: ClassVar[Ends] = "perhaps"
    on_shared_cluster = SAFE
    needs: ClassVar[LauncherFeature | None] = "reports"

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """Arm the fault for the target's rank while it is held, and wait for the effect.

        An effect that did not come before the run was over did no harm.
        """
        world.arm_storage(target)
        release(None)
        effect = world.await_storage(target)
        if effect is None:
            return Outcome(
                "fail", "it was armed, and storage was not used so before the run was over"
            )
        return Outcome("ok", effect)
