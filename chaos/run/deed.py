"""Carrying out a fault, and undoing it where it can be undone."""

from chaos.faults.base import Fault
from chaos.faults.world import Healed, Outcome, RefusedError, Release, Victim, World


def carried_out(fault: Fault, world: World, victim: Victim, release: Release) -> Outcome:
    """Have a fault do its harm; whatever goes wrong is an outcome too."""
    try:
        return fault.strike(world, victim, release)
    except RefusedError as error:
        return Outcome("fail", f"refused: {error}")
    except ProcessLookupError as error:
        return Outcome("fail", f"the target was already gone: {error}")
    except Exception as error:  # noqa: BLE001 - whatever went wrong, the harm is uncertain
        return Outcome("info", f"{type(error).__name__}: {error}")


def healed(fault: Fault, world: World, victim: Victim) -> str | None:
    """Undo a fault when it is time, and say how that went; None where there is nothing to undo."""
    if not isinstance(fault, Healed):
        return None
    try:
        return fault.heal(world, victim)
    except Exception as error:  # noqa: BLE001 - its node may be gone, and the process with it
        return f"not undone: {type(error).__name__}: {error}"
