"""The nodes of a connected cluster, and which of them do not see a folder of this machine."""

from collections.abc import Sequence
from pathlib import Path

import ray

from chaos.errors import ClusterError
from chaos.launch.ray import compat
from chaos.plan.permissions import NodeFacts
from chaos.run.remote_files import has_token_file

ANSWER_S = 60.0


def list_nodes() -> list[NodeFacts]:
    """Return the nodes that are alive in the connected cluster."""
    own_node_id = ray.get_runtime_context().get_node_id()
    return [
        NodeFacts(
            node_id=row["NodeID"],
            address=row["NodeManagerAddress"],
            cpus=float(row["Resources"].get("CPU", 0.0)),
            port=int(row["NodeManagerPort"]),
            hostname=row["NodeManagerHostname"],
            is_head=compat.is_head(row),
            is_own=row["NodeID"] == own_node_id,
        )
        for row in ray.nodes()
        if row["Alive"]
    ]


def find_unshared_nodes(
    cluster_nodes: Sequence[NodeFacts], folder: Path, token: str
) -> list[NodeFacts]:
    """Return the nodes that can hold workers and do not see a folder with a run's mark.

    Nothing is done there but to look at a file. Raises `ClusterError` if chaos is
    not installed on a node.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    worker_nodes = [node for node in cluster_nodes if node.cpus > 0]
    answers = [
        _can_see_mark.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        ).remote(str(folder), token)
        for node in worker_nodes
    ]
    unshared = []
    for node, answer in zip(worker_nodes, answers, strict=True):
        try:
            if not ray.get(answer, timeout=ANSWER_S):
                unshared.append(node)
        except ray.exceptions.GetTimeoutError as error:
            raise _build_answer_error(node, f"it did not answer within {ANSWER_S:g} s") from error
        except ray.exceptions.RayError as error:
            raise _build_answer_error(node, str(error).strip().splitlines()[-1]) from error
    return unshared


def _build_answer_error(node: NodeFacts, reason: str) -> ClusterError:
    return ClusterError(
        f"node {node.node_id[:8]} ({node.address}) could not be looked at: {reason}",
        "chaos must be installed on every node that may hold workers, in the same version",
    )


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def _can_see_mark(folder: str, token: str) -> bool:
    return has_token_file(Path(folder), token)
