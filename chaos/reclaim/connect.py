"""The choice of a platform's adaptor, whose client is imported only then, and of its machines."""

import contextlib
from collections.abc import Sequence
from typing import assert_never

from chaos.errors import UsageError
from chaos.faults.base import Platform
from chaos.faults.world import RefusedError
from chaos.model.scenario import platform_in
from chaos.plan.permitted import NodeFacts
from chaos.reclaim.clouds import AwsInstances, AzureMachines, GoogleInstances
from chaos.reclaim.local import LocalProcesses
from chaos.reclaim.pods import KubernetesPods
from chaos.reclaim.port import Reclaimer, asked, reason


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
        raise UsageError(f"{reclaim_by} cannot be reached: {reason(error)}", hint) from error


def machine_of(reclaimer: Reclaimer, node: NodeFacts, cluster: Sequence[NodeFacts]) -> str:
    """Return the machine under a node, which takes no other node of the cluster with it.

    Raises `RefusedError` where there is no such machine, or the platform does not answer.
    """
    try:
        with asked(reclaimer):
            machine = reclaimer.at(node.address, node.port, node.hostname)
            # A platform takes machines, and the guard knows nodes: a machine under several of them
            # once took the cluster's head, chaos's own node or one without the job's workers along.
            near = [n for n in cluster if n.protection is not None or n.address == node.address]
            beside = [n for n in near if n != node and _is_under(n, machine, reclaimer)]
    except RefusedError:
        raise
    # A refusal and not an error of the harness, for looking up changes nothing. Once a machine is
    # asked to go, the same exception would leave open whether it went.
    except Exception as error:  # nothing was done yet, whatever it is
        raise RefusedError(f"{reclaimer.name} does not answer: {reason(error)}") from error
    if beside:
        others = ", ".join(f"{n.node_id[:8]} ({n.protection or n.address})" for n in beside)
        raise RefusedError(f"other nodes would go with {machine}: {others}")
    return machine


def _is_under(node: NodeFacts, machine: str, reclaimer: Reclaimer) -> bool:
    with contextlib.suppress(RefusedError):
        return reclaimer.at(node.address, node.port, node.hostname) == machine
    return False


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
