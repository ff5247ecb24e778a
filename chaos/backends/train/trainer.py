"""What a trainer of Ray Train is set to, by names that Ray makes public."""

from typing import Any


def on_the_cpu(scaling_config: Any) -> dict[str, Any]:  # noqa: ANN401
    """Give the settings of workers that asked for GPUs and do without; empty where none asked."""
    if not scaling_config.use_gpu:
        return {}
    asked = scaling_config.resources_per_worker
    left = asked and {name: n for name, n in asked.items() if name != "GPU"}
    return {"use_gpu": False, "accelerator_type": None, "resources_per_worker": left or None}


def without_nccl(backend_config: Any) -> dict[str, Any]:  # noqa: ANN401
    """Give the settings of a process group on the CPU; empty where it is to be one already.

    `TorchTrainer` takes NCCL as soon as it is made, where `use_gpu` is set.
    """
    return {"backend": "gloo"} if "nccl" in str(getattr(backend_config, "backend", "")) else {}


def is_of_torch(trainer: Any) -> bool:  # noqa: ANN401 - a trainer of Ray Train
    """Say whether a trainer's workers make up a process group of torch's."""
    return any(cls.__name__ == "TorchTrainer" for cls in type(trainer).__mro__)
