"""Settings of a trainer of Ray Train, by names that Ray makes public."""

import math
from typing import Any

from chaos.model.plan import Shape
from chaos.plan.gpus import times


def on_the_cpu(scaling_config: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the settings by which workers that ask for GPUs do without; empty if none asks."""
    if not scaling_config.use_gpu:
        return {}
    asked = scaling_config.resources_per_worker
    left = asked and {name: n for name, n in asked.items() if name != "GPU"}
    return {"use_gpu": False, "accelerator_type": None, "resources_per_worker": left or None}


def as_there_is_room(scaling_config: Any, wants: dict[str, float], shape: Shape) -> dict[str, Any]:  # noqa: ANN401
    """Return the settings for workers that no node of the plan would hold; empty if they fit.

    The embedded backend reserves nothing: a worker is a process with one thread,
    whatever it asks for. `wants` are the resources of one worker, defaults filled in.
    """
    room = times(shape.cpus_per_node, wants["CPU"]) if wants.get("CPU") else math.inf
    of_nodes = {name for name, count in wants.items() if count} <= {"CPU", "memory"}
    if of_nodes and room * shape.nodes >= scaling_config.max_workers:
        return {}
    return {"resources_per_worker": None, "accelerator_type": None}


def without_nccl(backend_config: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the settings of a process group on the CPU; empty if it is on the CPU already.

    `TorchTrainer` chooses NCCL as soon as it is made, if `use_gpu` is set.
    """
    return {"backend": "gloo"} if "nccl" in str(getattr(backend_config, "backend", "")) else {}


def is_of_torch(trainer: Any) -> bool:  # noqa: ANN401 - a trainer of Ray Train
    """Return whether a trainer's workers form a process group of torch."""
    return any(cls.__name__ == "TorchTrainer" for cls in type(trainer).__mro__)
