"""The choice of a platform's adaptor, whose client is imported only then."""

from typing import assert_never

from chaos.errors import UsageError
from chaos.faults.base import Platform
from chaos.model.scenario import platform_in
from chaos.reclaim.clouds import AwsInstances, AzureMachines, GoogleInstances
from chaos.reclaim.local import LocalProcesses
from chaos.reclaim.pods import KubernetesPods
from chaos.reclaim.port import Reclaimer


def connect(reclaim_by: str) -> Reclaimer:
    """Return the adaptor of a platform, as in `kubernetes:jobs`; nothing is asked of it.

    Raises `UsageError` where its client is not installed, or has no settings to connect by.
    """
    platform, place = platform_in(reclaim_by)
    try:
        return _connected(platform, place)
    except UsageError:
        raise
    except Exception as error:  # each client has errors of its own for it
        hint = f"The client of {platform} must have its own settings here, on chaos's machine."
        raise UsageError(f"{reclaim_by} cannot be reached: {error}", hint) from error


def _connected(platform: Platform, place: str) -> Reclaimer:
    match platform:
        case "local":
            return LocalProcesses()
        case "kubernetes":
            return KubernetesPods.connect(place)
        case "aws":
            return AwsInstances.connect(place)
        case "azure":
            return AzureMachines.connect(*place.split("/"))
        case "google":
            return GoogleInstances.connect(*place.split("/"))
        case _:
            assert_never(platform)
