"""The nodes of a cluster, and those of them that do not see a folder."""

from collections.abc import Sequence
from pathlib import Path

import ray

from chaos.backends.ray import compat
from chaos.errors import ClusterError
from chaos.plan.permitted import NodeFacts
from chaos.run.apart import sees

ANSWER_S = 60.0


def nodes() -> list[NodeFacts]:
    """Return the nodes that are alive in the connected cluster."""
    own = ray.get_runtime_context().get_node_id()
    return [
        NodeFacts(
            node_id=row["NodeID"],
            address=row["NodeManagerAddress"],
            cpus=float(row["Resources"].get("CPU", 0.0)),
            is_head=compat.is_head(row),
            is_own=row["NodeID"] == own,
        )
        for row in ray.nodes()
        if row["Alive"]
    ]


def blind_nodes(known: Sequence[NodeFacts], folder: Path, token: str) -> list[NodeFacts]:
    """Return the nodes that can hold workers and do not see a folder with a run's mark.

    Nothing is done there but to look at a file. Raises `ClusterError` if chaos is
    not installed on a node.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    asked = [node for node in known if node.cpus > 0]
    answers = [
        _look.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        ).remote(str(folder), token)
        for node in asked
    ]
    blind = []
    for node, answer in zip(asked, answers, strict=True):
        try:
            if not ray.get(answer, timeout=ANSWER_S):
                blind.append(node)
        except ray.exceptions.GetTimeoutError as error:
            raise _no_answer(node, f"it did not answer within {ANSWER_S:g} s") from error
        except ray.exceptions.RayError as error:
            raise _no_answer(node, str(error).strip().splitlines()[-1]) from error
    return blind


def _no_answer(node: NodeFacts, why: str) -> ClusterError:
    return ClusterError(
        f"node {node.node_id[:8]} ({node.address}) could not be looked at: {why}",
        "chaos must be installed on every node that may hold workers, in the same version",
    )


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def _look(folder: str, token: str) -> bool:
    return sees(Path(folder), token)
