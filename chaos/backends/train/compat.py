"""Every private or unstable name of Ray Train that observer, probe and driver use.

Read in Ray 2.60.0; see `chaos.backends.ray.compat` for Ray's own.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

Budget: TypeAlias = Literal["failures", "preemptions", "controller"]

CALLBACKS_ENV = "RAY_TRAIN_CALLBACKS"


def callback_bases() -> tuple[type, ...]:
    """Give the callback classes (DeveloperAPI, internal path) whose hooks we use."""
    from ray.train.v2._internal.execution.callback import (
        ControllerCallback,
        ReportCallback,
        TrainContextCallback,
        WorkerCallback,
        WorkerGroupCallback,
    )

    return (
        WorkerCallback,
        TrainContextCallback,
        WorkerGroupCallback,
        ControllerCallback,
        ReportCallback,
    )


def train_context() -> Any:  # noqa: ANN401 - Ray's internal TrainContext
    """Give the worker's internal train context."""
    from ray.train.v2._internal.execution.context import get_train_context

    return get_train_context()


def own_node_id() -> str:
    """Give the id of the node that this worker was placed on."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def own_accelerators() -> tuple[str, ...]:
    """Name what Ray gave this worker beside CPUs, such as `GPU 0`."""
    import ray

    given: dict[str, list[str]] = ray.get_runtime_context().get_accelerator_ids()
    return tuple(f"{kind} {number}" for kind, ids in sorted(given.items()) for number in ids)


def handed_checkpoint() -> str | None:
    """Give the name of the checkpoint directory that this worker was started with."""
    return checkpoint_name(train_context().checkpoint)


def checkpoint_name(checkpoint: Any) -> str | None:  # noqa: ANN401 - ray.train.Checkpoint
    """Give a checkpoint's directory name, which Ray makes unique within a run."""
    return None if checkpoint is None else os.path.basename(checkpoint.path.rstrip("/"))  # noqa: PTH119 - may be a key in a bucket


def on_first_get_checkpoint(tell: Callable[[str | None], None]) -> None:
    """Call `tell` with the checkpoint's name when the train function first asks for it."""
    context = train_context()
    original = context.get_checkpoint
    told = False

    def get_checkpoint() -> Any:  # noqa: ANN401 - ray.train.Checkpoint
        nonlocal told
        checkpoint = original()
        if not told:
            told = True
            tell(checkpoint_name(checkpoint))
        return checkpoint

    context.get_checkpoint = get_checkpoint


def on_upload(tell: Callable[[Path, str], None]) -> None:
    """Call `tell` with the local folder and the checkpoint's name before each upload.

    A checkpoint that lies elsewhere than on the worker's own disk is not told of.
    """
    from pyarrow.fs import LocalFileSystem

    context = train_context()
    original = context._upload_checkpoint  # noqa: SLF001

    def upload(name: str, metrics: Any, checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        if checkpoint is not None and isinstance(checkpoint.filesystem, LocalFileSystem):
            tell(Path(checkpoint.path), name)
        return original(name, metrics, checkpoint, *args, **kwargs)

    context._upload_checkpoint = upload  # noqa: SLF001


def around_train_fn(
    launch: Callable[[], None],
    begin: Callable[[], None],
    tell: Callable[[BaseException | None], None],
) -> None:
    """Call `launch` while Ray's controller waits for the train function's thread to be started.

    Then `begin` in that thread, before the train function, and `tell` when it
    returns, or with what it raises.
    """
    runner = train_context().execution_context.training_thread_runner
    run = runner.run

    def run_and_tell(target: Callable[[], Any]) -> None:
        launch()

        @functools.wraps(target)
        def told() -> Any:  # noqa: ANN401
            try:
                begin()
                result = target()
            except BaseException as error:
                tell(error)
                raise
            tell(None)
            return result

        run(told)

    runner.run = run_and_tell


def on_checkpoint_deleted(
    tell: Callable[[str], None], within: Callable[[], AbstractContextManager[None]]
) -> None:
    """Call `tell` with the name of each checkpoint that retention removes, once it is gone.

    It is removed, and looked for before, in the context that `within` gives.
    """
    from ray.train.v2._internal.execution.checkpoint import checkpoint_manager

    original = checkpoint_manager.delete_fs_path

    def delete(fs: Any, fs_path: str) -> None:  # noqa: ANN401 - a pyarrow file system
        with within():
            original(fs=fs, fs_path=fs_path)
        tell(os.path.basename(fs_path.rstrip("/")))  # noqa: PTH119 - may be a key in a bucket

    checkpoint_manager.delete_fs_path = delete


def snapshot_name() -> str:
    """Name the file in which Ray's controller keeps its list of checkpoints."""
    from ray.train.v2._internal.constants import CHECKPOINT_MANAGER_SNAPSHOT_FILENAME

    return str(CHECKPOINT_MANAGER_SNAPSHOT_FILENAME)


def workers_of(worker_group: Any) -> list[tuple[int, int, str, str, Any]]:  # noqa: ANN401
    """Give (rank, pid, node id, node ip, actor handle) of each worker of a group."""
    return [
        (
            worker.distributed_context.world_rank,
            worker.metadata.pid,
            worker.metadata.node_id,
            worker.metadata.node_ip,
            worker.actor,
        )
        for worker in worker_group.get_workers()
    ]


def checkpoint_handed_to(worker_group: Any) -> str | None:  # noqa: ANN401 - a WorkerGroup
    """Ask rank 0 of a group that has just started which checkpoint it was handed."""
    name: str | None = worker_group.execute_single(0, handed_checkpoint)
    return name


def state_name(state: Any) -> str:  # noqa: ANN401 - a TrainControllerState
    """Give a controller state's name, such as RUNNING."""
    return str(state._state_type.name)  # noqa: SLF001


def failure_of(state: Any) -> Any:  # noqa: ANN401 - a TrainingFailedError or None
    """Give the error that brought the controller into a state, where there is one."""
    after = getattr(state, "next_state", None)
    return getattr(after if after is not None else state, "training_failed_error", None)


def leads_to_error(state: Any) -> bool:  # noqa: ANN401 - a TrainControllerState
    """Say whether a state ends the run with an error."""
    after = getattr(state, "next_state", None)
    return after is not None and state_name(after) == "ERRORED"


def charged_budget(error: Any) -> Budget:  # noqa: ANN401 - a TrainingFailedError
    """Name the budget that Ray's default policy counts an error against."""
    from ray.train.v2._internal.execution.failure_handling.default import _is_preemption_failure

    if type(error).__name__ == "ControllerError":
        return "controller"
    return "preemptions" if _is_preemption_failure(error) else "failures"


def failure_name(error: Any) -> str:  # noqa: ANN401 - a TrainingFailedError
    """Give an error's class; of Ray's controller's own errors, the class of what went wrong."""
    inner = getattr(error, "controller_failure", None)
    name = type(error).__name__
    return name if inner is None else f"{name}: {type(inner).__name__}"


def failures_by_rank(error: Any) -> dict[int, str]:  # noqa: ANN401 - a TrainingFailedError
    """Give, per rank, the class and first line of its error."""
    failures = getattr(error, "worker_failures", None) or {}
    return {rank: f"{type(e).__name__}: {_first_line(e)}" for rank, e in failures.items()}


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else ""


def trainer_class() -> Any:  # noqa: ANN401 - the base of all trainers
    """Give the class whose constructor and `fit` every Ray Train trainer shares."""
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    return DataParallelTrainer


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


def resources_per_worker(scaling_config: Any) -> dict[str, float]:  # noqa: ANN401
    """Give what one worker asks for, defaults filled in."""
    return dict(scaling_config._resources_per_worker_not_none)  # noqa: SLF001


def is_of_torch(trainer: Any) -> bool:  # noqa: ANN401 - a trainer of Ray Train
    """Say whether a trainer's workers make up a process group of torch's."""
    return any(cls.__name__ == "TorchTrainer" for cls in type(trainer).__mro__)


def setup_hook_env() -> str:
    """Name the variable that tells a worker process of Ray's what to call once it is connected."""
    from ray._private.ray_constants import WORKER_PROCESS_SETUP_HOOK_ENV_VAR

    return str(WORKER_PROCESS_SETUP_HOOK_ENV_VAR)


def has_setup_hook(run_config: Any) -> bool:  # noqa: ANN401 - a RunConfig
    """Say whether the job or its workers have such a call of their own."""
    import ray

    of_job = ray.get_runtime_context().runtime_env if ray.is_initialized() else {}
    return any(
        "worker_process_setup_hook" in env or setup_hook_env() in env.get("env_vars", {})
        for env in (of_job, run_config.worker_runtime_env or {})
    )
