"""Every private or unstable name of Ray Train that observer, probe and driver use.

Read in Ray 2.60.0; see `chaos.launch.ray.compat` for Ray's own.
"""

from __future__ import annotations

import functools
import posixpath
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from chaos.wording import shorten_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

Budget: TypeAlias = Literal["failures", "preemptions", "controller"]

CALLBACKS_ENV = "RAY_TRAIN_CALLBACKS"
_CHAOS_FOLDER, _FORWARDING_FILE = Path(__file__).parents[2], "launch/forked/core.py"


def callback_bases() -> tuple[type, ...]:
    """Return the callback classes (DeveloperAPI, internal path) whose hooks chaos uses."""
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


def train_context() -> Any:  # Ray's internal TrainContext
    """Return the worker's internal train context."""
    from ray.train.v2._internal.execution.context import get_train_context

    return get_train_context()


def current_node_id() -> str:
    """Return the id of the node that this worker was placed on."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def current_accelerators() -> tuple[str, ...]:
    """Return the names of this worker's accelerators, such as `GPU 0`."""
    import ray

    accelerators: dict[str, list[str]] = ray.get_runtime_context().get_accelerator_ids()
    return tuple(f"{kind} {number}" for kind, ids in sorted(accelerators.items()) for number in ids)


def starting_checkpoint() -> str | None:
    """Return the name of the checkpoint directory that this worker was started with."""
    context = train_context()
    return checkpoint_name(context.checkpoint, run_folder(context))


def run_folder(holder: Any) -> str:  # a TrainContext or a RunConfig
    """Return the folder of all that a run stores, as a path of its file system."""
    return str(holder.storage_context.experiment_fs_path)


def is_local(files: Any) -> bool:  # a file system of pyarrow's
    """Return whether paths of a file system are paths of this machine."""
    return type(files).__name__ == "LocalFileSystem"


def watch_persisted(report: Callable[[str, str], object]) -> None:
    """Call `report` with each checkpoint that this worker copies to a local storage folder.

    It is called with its path before, and that of the copy. The method is Ray's own (2.60).
    """
    storage = train_context().storage_context
    persist = storage.persist_current_checkpoint

    def persist_watched(checkpoint: Any, *args: Any, **kwargs: Any) -> Any:
        copied = persist(checkpoint, *args, **kwargs)
        if is_local(checkpoint.filesystem) and is_local(copied.filesystem):
            report(checkpoint.path, copied.path)
        return copied

    storage.persist_current_checkpoint = persist_watched


def checkpoint_name(checkpoint: Any, folder: str) -> str | None:  # ray.train.Checkpoint
    """Return the path of a checkpoint from its run's folder, which is unique in the run.

    It is the name of a directory that Ray or the job chose; if the job wrote the checkpoint
    deeper, a path of several. Ray 2.60 records none outside of the folder (`report()`
    raises); its path would begin with `..`.
    """
    return None if checkpoint is None else posixpath.relpath(checkpoint.path, folder)


def watch_get_checkpoint(tell: Callable[[str | None], None]) -> None:
    """Call `tell` with the checkpoint's name when the train function first asks for it."""
    context = train_context()
    folder, original = run_folder(context), context.get_checkpoint
    told = False

    def get_checkpoint() -> Any:  # ray.train.Checkpoint
        nonlocal told
        checkpoint = original()
        if not told:
            told = True
            tell(checkpoint_name(checkpoint, folder))
        return checkpoint

    context.get_checkpoint = get_checkpoint


def wrap_async_uploads(decorate: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Pass each upload that is handed to Ray's thread through `decorate`, in `report()`.

    Ray 2.60 has one such thread per process (`CheckpointUploadMode.ASYNC`), and the next upload
    waits for the one before.
    """
    # The function is wrapped as it is handed over, in `report()`: only there is it known to which
    # epoch the upload belongs. In Ray's thread the training has long gone on.
    pool = train_context().checkpoint_upload_threadpool
    submit = type(pool).submit

    def submit_wrapped(upload: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return submit(pool, decorate(upload), *args, **kwargs)

    pool.submit = submit_wrapped


def watch_uploads(tell: Callable[[Path, str], None]) -> None:
    """Call `tell` with a local folder and the checkpoint's name before each upload.

    A checkpoint that Ray does not upload was put into storage by the job, or by its
    `checkpoint_upload_fn`. For such a one, `tell` is called with the folder in storage,
    once every rank has entered `report()`, so that none of them still writes. A
    checkpoint that is not on a disk of this worker is left out.
    """
    # Two methods are wrapped: a checkpoint that Ray uploads is seen in `_upload_checkpoint`, while
    # its local folder is there; any other one in `_wait_then_report`, which runs after it.
    context = train_context()
    upload, hand_over = context._upload_checkpoint, context._wait_then_report  # noqa: SLF001
    by_ray: set[int] = set()

    def upload_watched(
        name: str,
        metrics: Any,
        checkpoint: Any = None,
        delete: Any = False,  # noqa: FBT002
        upload_fn: Any = None,
        *extra: Any,
    ) -> Any:
        if upload_fn is None and _is_local(checkpoint):
            tell(Path(checkpoint.path), name)
        report = upload(name, metrics, checkpoint, delete, upload_fn, *extra)
        # By identity: the report lives until it is handed over below.
        if upload_fn is None:
            by_ray.add(id(report))
        return report

    def hand_over_watched(report: Any, *args: Any) -> Any:  # a _TrainingReport
        if id(report) not in by_ray and _is_local(report.checkpoint):
            name = checkpoint_name(report.checkpoint, run_folder(context))
            assert name is not None
            tell(Path(report.checkpoint.path), name)
        by_ray.discard(id(report))
        return hand_over(report, *args)

    context._upload_checkpoint, context._wait_then_report = upload_watched, hand_over_watched  # noqa: SLF001


def _is_local(checkpoint: Any) -> bool:  # ray.train.Checkpoint or None
    from pyarrow.fs import LocalFileSystem

    return checkpoint is not None and isinstance(checkpoint.filesystem, LocalFileSystem)


def wrap_train_fn(
    launch: Callable[[], None],
    begin: Callable[[], None],
    tell: Callable[[BaseException | None], None],
) -> None:
    """Call `launch` while Ray's controller waits for the train function's thread to be started.

    Call `begin` in that thread, before the train function, and `tell` after it, with
    the error that it raised or None.
    """
    # Three moments: the worker is asked to launch (Ray's controller waits for the answer, and a
    # death there fails it: `starting` with `at_launch`), the thread of the train function begins,
    # and it ends. BaseException, since a script may end itself by SystemExit.
    runner = train_context().execution_context.training_thread_runner
    run = runner.run

    def run_watched(target: Callable[[], Any]) -> None:
        launch()

        @functools.wraps(target)
        def call_target() -> Any:
            try:
                begin()
                result = target()
            except BaseException as error:
                tell(error)
                raise
            tell(None)
            return result

        run(call_target)

    runner.run = run_watched


def watch_deletions(
    tell: Callable[[str], None],
    folder: str,
    within: Callable[[], AbstractContextManager[None]],
) -> None:
    """Call `tell` with the name of each checkpoint that retention removes, once it is gone.

    The name is its path below `folder`. Ray looks for it and removes it in the
    context that `within` returns.
    """
    # Ray 2.60's CheckpointManager calls this function of its own module by name. `within` tells the
    # wrapped storage that it is retention that looks: a checkpoint that is hidden from readers by a
    # fault is not hidden from its removal, or Ray's controller would fail in what no storage does.
    from ray.train.v2._internal.execution.checkpoint import checkpoint_manager

    original = checkpoint_manager.delete_fs_path

    def delete(fs: Any, fs_path: str) -> None:  # a pyarrow file system
        with within():
            original(fs=fs, fs_path=fs_path)
        tell(posixpath.relpath(fs_path, folder))

    checkpoint_manager.delete_fs_path = delete


def snapshot_name() -> str:
    """Return the name of the file in which Ray's controller keeps its list of checkpoints."""
    from ray.train.v2._internal.constants import CHECKPOINT_MANAGER_SNAPSHOT_FILENAME

    return str(CHECKPOINT_MANAGER_SNAPSHOT_FILENAME)


def list_workers(worker_group: Any) -> list[tuple[int, int, str, str, Any]]:
    """Return (rank, pid, node id, node ip, actor handle) of each worker of a group."""
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


def find_starting_checkpoint(worker_group: Any) -> str | None:  # a WorkerGroup
    """Return the checkpoint that rank 0 of a group that has just started was handed."""
    name: str | None = worker_group.execute_single(0, starting_checkpoint)
    return name


def state_name(state: Any) -> str:  # a TrainControllerState
    """Return a controller state's name, such as RUNNING."""
    return str(state._state_type.name)  # noqa: SLF001


def find_failure(state: Any) -> Any:  # a TrainingFailedError or None
    """Return the error that brought the controller into a state, None if there is none."""
    # Ray 2.60 passes through SHUTTING_DOWN on its way out, and the error is in the state after it.
    next_state = getattr(state, "next_state", None)
    return getattr(next_state if next_state is not None else state, "training_failed_error", None)


def leads_to_error(state: Any) -> bool:  # a TrainControllerState
    """Return whether a state ends the run with an error."""
    next_state = getattr(state, "next_state", None)
    return next_state is not None and state_name(next_state) == "ERRORED"


def charged_budget(error: Any) -> Budget:  # a TrainingFailedError
    """Return the budget that Ray's default policy counts an error against."""
    # Ray's own function decides, and not the notice that was given: which budget an announced loss
    # is charged to is what is tested (docs/notes, 23).
    from ray.train.v2._internal.execution.failure_handling.default import _is_preemption_failure

    if type(error).__name__ == "ControllerError":
        return "controller"
    return "preemptions" if _is_preemption_failure(error) else "failures"


def find_chaos_error(error: Any) -> str | None:  # a TrainingFailedError
    """Return an error that code of chaos's raised in Ray's controller by mistake; else None.

    What this code raises on purpose is harm, or what Ray's core or a file system would raise.
    """
    # The last frame says whose code raised: an error of chaos's own in Ray's controller is no word
    # about the job, and the run is tried again.
    cause = getattr(error, "controller_failure", None)
    expected_errors = ("RayError", "ChaosError", "InjectedError", "OSError")
    if cause is None or any(cls.__name__ in expected_errors for cls in type(cause).__mro__):
        return None
    frames = traceback.extract_tb(cause.__traceback__)
    # There, calls raise again what they came to elsewhere.
    is_from_chaos = bool(frames) and Path(frames[-1].filename).is_relative_to(_CHAOS_FOLDER)
    if not is_from_chaos or frames[-1].filename.endswith(_FORWARDING_FILE):
        return None
    return f"{type(cause).__name__}: {cause} ({frames[-1].name})"


def failure_name(error: Any) -> str:  # a TrainingFailedError
    """Return the class of an error, and of its cause if it is of Ray's controller itself."""
    cause = getattr(error, "controller_failure", None)
    name = type(error).__name__
    return name if cause is None else f"{name}: {type(cause).__name__}"


def failures_by_rank(error: Any) -> dict[int, str]:  # a TrainingFailedError
    """Return, per rank, the class and last line of its error."""
    failures = getattr(error, "worker_failures", None) or {}
    return {rank: f"{type(e).__name__}: {_find_last_line(e)}" for rank, e in failures.items()}


def _find_last_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return shorten_text(lines[-1].strip()) if lines else ""


def trainer_class() -> Any:  # the base of all trainers
    """Return the class whose constructor and `fit` every Ray Train trainer shares."""
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    return DataParallelTrainer


def resources_per_worker(scaling_config: Any) -> dict[str, float]:
    """Return the resources of one worker, defaults filled in."""
    return dict(scaling_config._resources_per_worker_not_none)  # noqa: SLF001
