"""Settings of a trainer of Ray Train, and the refusal of those that the nodes cannot hold."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from chaos.errors import RefusalError
from chaos.launch.raytrain import compat
from chaos.model.plan import Plan, Shape
from chaos.plan.gpus import room, shares, times


def on_the_cpu(scaling_config: Any) -> dict[str, Any]:
    """Return the settings by which workers that ask for GPUs do without; empty if none asks."""
    if not scaling_config.use_gpu:
        return {}
    asked = scaling_config.resources_per_worker
    left = asked and {name: n for name, n in asked.items() if name != "GPU"}
    return {"use_gpu": False, "accelerator_type": None, "resources_per_worker": left or None}


def as_there_is_room(scaling_config: Any, wants: dict[str, float], shape: Shape) -> dict[str, Any]:
    """Return the settings for workers that no node of the plan would hold; empty if they fit.

    The embedded backend reserves nothing: a worker is a process with one thread,
    whatever it asks for. `wants` are the resources of one worker, defaults filled in.
    """
    room = times(shape.cpus_per_node, wants["CPU"]) if wants.get("CPU") else math.inf
    of_nodes = {name for name, count in wants.items() if count} <= {"CPU", "memory"}
    if of_nodes and room * shape.nodes >= scaling_config.max_workers:
        return {}
    return {"resources_per_worker": None, "accelerator_type": None}


def without_nccl(backend_config: Any) -> dict[str, Any]:
    """Return the settings of a process group on the CPU; empty if it is on the CPU already.

    `TorchTrainer` chooses NCCL as soon as it is made, if `use_gpu` is set.
    """
    return {"backend": "gloo"} if "nccl" in str(getattr(backend_config, "backend", "")) else {}


def is_of_torch(trainer: Any) -> bool:  # a trainer of Ray Train
    """Return whether a trainer's workers form a process group of torch."""
    return any(cls.__name__ == "TorchTrainer" for cls in type(trainer).__mro__)


_OF_TYPE = "accelerator_type:"  # a node of Ray has this resource for the GPUs of its machine


def refuse_what_does_not_fit(
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
    wants = compat.resources_per_worker(scaling)
    there = ("CPU", "GPU", "memory", f"{_OF_TYPE}{gpu_type}")
    unheld = [name for name, n in wants.items() if n and name not in there]
    if unheld:
        raise RefusalError(
            f"a worker asks for {wants}; the nodes of a local cluster have no {unheld[0]}",
            "With the backend `fork` nothing is reserved.",
        )
    workers = scaling.max_workers
    per_node = times(shape.cpus_per_node, wants["CPU"]) if wants.get("CPU") else workers
    if per_node * shape.nodes < workers:
        raise RefusalError(
            f"{workers} workers ask for {wants} each; {shape.nodes} nodes of "
            f"{shape.cpus_per_node} CPU cannot hold them",
            "Set cluster.cpus_per_node or cluster.nodes; with the backend `fork` nothing is "
            "reserved.",
        )
    if wants.get("GPU"):
        _refuse_too_few_gpus(wants, plan, gpus, workers=workers)


def _refuse_too_few_gpus(
    wants: Mapping[str, float], plan: Plan, gpus: Sequence[str], *, workers: int
) -> None:
    nodes = plan.shape.nodes
    held = room(gpus, nodes, each=wants["GPU"])
    if held < workers:
        has = f"{len(gpus)} GPU{'s' if len(gpus) != 1 else ''}"
        raise RefusalError(
            f"{workers} workers ask for {wants} each; {nodes} nodes of this machine, which has "
            f"{has}, hold {held} of them",
            "With the backend `fork` they train on the CPU; with --address, on a cluster that has "
            "the GPUs.",
        )
    if len(gpus) == 1 or plan.job.min_workers is not None:
        return  # all nodes share the one GPU, or the job trains on with fewer workers
    lost = sum(op.fault.nodes_lost for op in plan.ops)
    back = sum(max(0, op.fault.nodes_added) for op in plan.ops)
    of_a_node = max(times(len(share), wants["GPU"]) for share in shares(gpus, nodes))
    left = held - max(0, lost - back) * of_a_node
    if left < workers:
        raise RefusalError(
            f"{lost} of {nodes} nodes are lost, and the others' GPUs hold {max(0, left)} of "
            f"{workers} workers: the job would wait for ever",
            "Add return_capacity (the new nodes have the GPUs of those lost).",
        )
