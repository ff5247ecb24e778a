"""The choice of a platform's adaptor, whose client is imported only then, and of its machines."""

import contextlib
from collections.abc import Sequence
from typing import assert_never

from chaos.errors import UsageError
from chaos.extensions.cluster.reclaim.clouds import AwsInstances, AzureMachines, GoogleInstances
from chaos.extensions.cluster.reclaim.local import LocalProcesses
from chaos.extensions.cluster.reclaim.pods import KubernetesPods
from chaos.extensions.cluster.reclaim.reclaimer import (
    Reclaimer,
    convert_permission_errors,
    find_reason,
)
from chaos.faults.base import Platform
from chaos.faults.world import RefusedError
from chaos.model.scenario import parse_platform
from chaos.plan.permissions import NodeFacts


def build_reclaimer(reclaim_by: str) -> Reclaimer:
    """Return the adaptor of a platform, as in `kubernetes:jobs`; nothing is asked of it.

    Raises `UsageError` where its client is not installed, or has no settings to connect by.
    """
    platform, location = parse_platform(reclaim_by)
    try:
        return _connect_platform(platform, location)
    except UsageError:
        raise
    except Exception as error:  # each client has errors of its own for it
        hint = f"The client of {platform} must have its own settings here, on chaos's machine."
        raise UsageError(f"{reclaim_by} cannot be reached: {find_reason(error)}", hint) from error


def find_machine(reclaimer: Reclaimer, node: NodeFacts, cluster: Sequence[NodeFacts]) -> str:
    """Return the machine under a node, which takes no other node of the cluster with it.

    Raises `RefusedError` where there is no such machine, or the platform does not answer.
    """
    try:
        with convert_permission_errors(reclaimer):
            machine = reclaimer.find_machine(node.address, node.port, node.hostname)
            # A platform takes machines, and the guard knows nodes: a machine under several of them
            # once took the cluster's head, chaos's own node or one without the job's workers along.
            nodes_to_check = [
                other_node
                for other_node in cluster
                if other_node.protection_reason is not None or other_node.address == node.address
            ]
            affected_nodes = [
                other_node
                for other_node in nodes_to_check
                if other_node != node and _is_on_machine(other_node, machine, reclaimer)
            ]
    except RefusedError:
        raise
    # A failed lookup changed nothing, so it is a refusal. After a reclaim request the same
    # exception would leave the outcome unknown.
    except Exception as error:  # nothing was done yet, whatever it is
        raise RefusedError(f"{reclaimer.name} does not answer: {find_reason(error)}") from error
    if affected_nodes:
        nodes_text = ", ".join(
            f"{other_node.node_id[:8]} ({other_node.protection_reason or other_node.address})"
            for other_node in affected_nodes
        )
        raise RefusedError(f"other nodes would go with {machine}: {nodes_text}")
    return machine


def describe_machines(reclaimer: Reclaimer, nodes: Sequence[NodeFacts]) -> dict[str, str]:
    """Return by node the machine that a platform would take. Looks, and changes nothing.

    In its place there is the reason where it would refuse.
    """
    machine_by_node = dict.fromkeys((node_facts.node_id for node_facts in nodes), "")
    for node in nodes:
        if node.standing == "may have faults":
            try:
                machine_by_node[node.node_id] = find_machine(reclaimer, node, nodes)
            except RefusedError as error:
                machine_by_node[node.node_id] = f"none: {error}"
    return machine_by_node


def _is_on_machine(node: NodeFacts, machine: str, reclaimer: Reclaimer) -> bool:
    with contextlib.suppress(RefusedError):
        return reclaimer.find_machine(node.address, node.port, node.hostname) == machine
    return False


def _connect_platform(platform: Platform, location: str) -> Reclaimer:
    match platform:
        case "local":
            return LocalProcesses()
        case "kubernetes":
            return KubernetesPods.connect(location)
        case "aws":
            return AwsInstances.connect(location)
        case "azure":
            return AzureMachines.connect(*location.split("/"))
        case "google":
            return GoogleInstances.connect(*location.split("/"))
        case _:
            assert_never(platform)
