"""Nodes of a local cluster have GPUs of their own, and a new one has those of a lost one.

The GPUs are only said to be there: Ray hands out what it is told, by id.
"""

import os

import pytest
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from chaos.launch.ray import compat
from chaos.launch.ray.cluster import LocalCluster
from chaos.model.plan import Shape

pytestmark = [pytest.mark.ray, pytest.mark.nightly, pytest.mark.timeout(300)]


def ids_by_node() -> dict[str, str]:
    """Ask every node for the GPU that a worker there would see."""
    seen = ray.remote(num_gpus=1)(lambda: os.environ["CUDA_VISIBLE_DEVICES"])
    nodes = [n["NodeID"] for n in ray.nodes() if n["Alive"] and n["Resources"].get("GPU")]
    asked = [
        seen.options(scheduling_strategy=NodeAffinitySchedulingStrategy(n, soft=False)).remote()
        for n in nodes
    ]
    return dict(zip(nodes, ray.get(asked, timeout=60), strict=True))


def test_a_new_node_has_the_gpu_of_the_lost_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "visible_gpus", lambda: ("4", "6"))
    cluster = LocalCluster.start(Shape(nodes=2, cpus_per_node=1))
    try:
        before = ids_by_node()
        assert sorted(before.values()) == ["4", "6"]

        lost = next(node for node, gpu in before.items() if gpu == "4")
        cluster.heal({lost})

        after = ids_by_node()
        assert lost not in after
        assert sorted(after.values()) == ["4", "6"]
    finally:
        cluster.close()
