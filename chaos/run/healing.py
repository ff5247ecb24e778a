"""Undoing what a fault has done, where it can be undone."""

from chaos.faults.world import Healed, Victim, World
from chaos.model.fault_entry import Fault


def healed(fault: Fault, world: World, victim: Victim) -> str | None:
    """Undo a fault when it is time, and say how that went; None where there is nothing to undo."""
    if not isinstance(fault, Healed):
        return None
    try:
        return fault.heal(world, victim)
    except Exception as error:  # noqa: BLE001 - its node may be gone, and the process with it
        return f"not undone: {type(error).__name__}: {error}"
