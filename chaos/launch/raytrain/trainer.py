"""Settings of a trainer of Ray Train, and the refusal of those that the nodes cannot hold."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from chaos.errors import RefusalError
from chaos.launch.raytrain import compat
from chaos.model.plan import Plan, Shape
from chaos.plan.gpus import count_fits, count_workers, split_gpus


def build_cpu_settings(scaling_config: Any) -> dict[str, Any]:
    """Return the settings by which workers that ask for GPUs do without; empty if none asks."""
    if not scaling_config.use_gpu:
        return {}
    resources = scaling_config.resources_per_worker
    remaining = resources and {name: amount for name, amount in resources.items() if name != "GPU"}
    return {"use_gpu": False, "accelerator_type": None, "resources_per_worker": remaining or None}


def build_fitting_settings(
    scaling_config: Any, needs: dict[str, float], shape: Shape
) -> dict[str, Any]:
    """Return the settings for workers that no node of the plan would hold; empty if they fit.

    The embedded backend reserves nothing: a worker is a process with one thread,
    whatever it asks for. `needs` are the resources of one worker, defaults filled in.
    """
    workers_per_node = (
        count_fits(shape.cpus_per_node, needs["CPU"]) if needs.get("CPU") else math.inf
    )
    has_node_kinds = {name for name, count in needs.items() if count} <= {"CPU", "memory"}
    if has_node_kinds and workers_per_node * shape.nodes >= scaling_config.max_workers:
        return {}
    return {"resources_per_worker": None, "accelerator_type": None}


def build_gloo_settings(backend_config: Any) -> dict[str, Any]:
    """Return the settings of a process group on the CPU; empty if it is on the CPU already.

    `TorchTrainer` chooses NCCL as soon as it is made, if `use_gpu` is set.
    """
    return {"backend": "gloo"} if "nccl" in str(getattr(backend_config, "backend", "")) else {}


_TYPE_PREFIX = "accelerator_type:"  # a node of Ray has this resource for the GPUs of its machine


def check_resources(
    scaling: Any,
    plan: Plan,
    gpus: Sequence[str],
    gpu_type: str | None = None,
) -> None:
    """Raise `RefusalError` for workers that would wait for ever.

    `gpus`: those of this machine; `gpu_type`: their type as Ray calls it, such as H100.
    """
    shape = plan.shape
    if shape.address is not None:
        return  # on an existing cluster, Ray looks for the nodes
    needs = compat.resources_per_worker(scaling)
    available = ("CPU", "GPU", "memory", f"{_TYPE_PREFIX}{gpu_type}")
    unavailable = [name for name, amount in needs.items() if amount and name not in available]
    if unavailable:
        raise RefusalError(
            f"a worker asks for {needs}; the nodes of a local cluster have no {unavailable[0]}",
            "With the backend `fork` nothing is reserved.",
        )
    workers = scaling.max_workers
    per_node = count_fits(shape.cpus_per_node, needs["CPU"]) if needs.get("CPU") else workers
    if per_node * shape.nodes < workers:
        raise RefusalError(
            f"{workers} workers ask for {needs} each; {shape.nodes} nodes of "
            f"{shape.cpus_per_node} CPU cannot hold them",
            "Set cluster.cpus_per_node or cluster.nodes; with the backend `fork` nothing is "
            "reserved.",
        )
    if needs.get("GPU"):
        _check_gpus(needs, plan, gpus, workers=workers)


def _check_gpus(
    needs: Mapping[str, float], plan: Plan, gpus: Sequence[str], *, workers: int
) -> None:
    nodes = plan.shape.nodes
    capacity = count_workers(gpus, nodes, gpus_per_worker=needs["GPU"])
    if capacity < workers:
        gpu_count = f"{len(gpus)} GPU{'s' if len(gpus) != 1 else ''}"
        raise RefusalError(
            f"{workers} workers ask for {needs} each; {nodes} nodes of this machine, which has "
            f"{gpu_count}, hold {capacity} of them",
            "With the backend `fork` they train on the CPU; with --address, on a cluster that has "
            "the GPUs.",
        )
    if len(gpus) == 1 or plan.job.min_workers is not None:
        return  # all nodes share the one GPU, or the job trains on with fewer workers
    lost_nodes = sum(op.fault.lost_node_count for op in plan.ops)
    added_nodes = sum(max(0, op.fault.nodes_added) for op in plan.ops)
    node_capacity = max(count_fits(len(share), needs["GPU"]) for share in split_gpus(gpus, nodes))
    remaining = capacity - max(0, lost_nodes - added_nodes) * node_capacity
    if remaining < workers:
        raise RefusalError(
            f"{lost_nodes} of {nodes} nodes are lost, and the others' GPUs hold "
            f"{max(0, remaining)} of {workers} workers: the job would wait for ever",
            "Add return_capacity (the new nodes have the GPUs of those lost).",
        )
