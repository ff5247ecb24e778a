"""How every storage fault strikes: it is armed at its place, and the storage layer does the harm.

What a storage fault does, it does inside the run's wrapped file system, in
the process that writes or reads there. So a strike arms it, lets the held
rank go on, and waits for the layer's own word that it took effect.
"""

from chaos.faults.world import Outcome, Release, Victim, World

STORAGE_FAULTS = (
    "fail_upload",
    "slow_upload",
    "torn_checkpoint",
    "disk_full",
    "delayed_visibility",
    "corrupt_snapshot",
)


def arm(world: World, victim: Victim, release: Release) -> Outcome:
    """Arm the op's fault for the victim's rank, let the held rank go on, and wait for its effect.

    An effect that did not come before the run was over did no harm.
    """
    world.arm_storage(victim)
    release(None)
    effect = world.await_storage(victim)
    if effect is None:
        return Outcome("fail", "it was armed, and storage was not used so before the run was over")
    return Outcome("ok", effect)
