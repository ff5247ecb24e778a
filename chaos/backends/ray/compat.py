"""Every private or unstable name of Ray that chaos uses, and nothing else.

Read in Ray 2.60.0. An upgrade of Ray is looked through here: each name has a
test that imports it, and the functions below are the only code that knows the
shape of what is behind them.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import ray

if TYPE_CHECKING:
    from collections.abc import Callable

Budget: TypeAlias = Literal["failures", "preemptions", "controller"]

READ_IN = "2.60.0"
TESTED = ((2, 60), (2, 61))
CALLBACKS_ENV = "RAY_TRAIN_CALLBACKS"
RAYS_OWN_ACTORS = ("_AutoscalingCoordinatorActor",)


def untested_version(version: str = ray.__version__) -> str | None:
    """Say, where Ray's version is outside the tested range, that it is; else give None."""
    parts = tuple(int(part) for part in version.split(".")[:2])
    if TESTED[0] <= parts < TESTED[1]:
        return None
    low, high = (".".join(map(str, bound)) for bound in TESTED)
    return (
        f"Ray {version} is outside the range chaos was tested with (>={low},<{high}); private "
        f"names were read in {READ_IN} and may have moved (chaos/backends/ray/compat.py)"
    )


# -- a local cluster ---------------------------------------------------------------------------


def new_cluster(head_args: dict[str, Any]) -> Any:  # noqa: ANN401 - a Cluster of Ray
    """Start a head node and give `ray.cluster_utils.Cluster` (DeveloperAPI).

    The machine-global file that `ray.init("auto")` reads is left as it is:
    Cluster would overwrite it with our address, and other people's programs
    would come to our cluster.
    """
    import ray._private.utils as private_utils
    from ray.cluster_utils import Cluster

    original = private_utils.write_ray_address
    private_utils.write_ray_address = lambda *_args, **_kwargs: None
    try:
        return Cluster(initialize_head=True, head_node_args=head_args)
    finally:
        private_utils.write_ray_address = original


def keep_messages_off_the_terminal() -> None:
    """Send what raylets tell the driver (a node that we lost, say) to the log `chaos.ray`.

    Ray prints it even with `log_to_driver=False`.
    """
    import ray._private.worker as private_worker

    log = logging.getLogger("chaos.ray")

    def tell(message: dict[str, Any], **_: Any) -> None:  # noqa: ANN401 - Ray's keywords
        log.debug("%s", "\n".join(message.get("lines", ())))

    private_worker.print_to_stdstream = tell


def node_id_of(node: Any) -> str:  # noqa: ANN401 - a Node of Ray
    """Give the hex id of a node object that `Cluster.add_node` returned."""
    return str(node.node_id)


def pids_of(node: Any) -> list[int]:  # noqa: ANN401 - a Node of Ray
    """Give the pids of the processes that a node object started (raylet, GCS, monitors)."""
    return [info.process.pid for infos in node.all_processes.values() for info in infos]


# -- the control plane -------------------------------------------------------------------------


def drain_for_preemption(address: str, node_id: str, deadline_unix_ms: int) -> tuple[bool, str]:
    """Announce to the GCS that a node will be preempted; gives (accepted, reason)."""
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.core.generated import autoscaler_pb2

    reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    accepted, why = GcsClient(address=address).drain_node(
        node_id, reason, "spot reclaim, injected by chaos", deadline_unix_ms
    )
    return bool(accepted), str(why)


def open_placement_groups() -> list[str]:
    """Give the ids (hex) of placement groups that are not removed, in the connected cluster."""
    table = ray.util.placement_group_table()
    return [pg_id for pg_id, row in table.items() if row["state"] != "REMOVED"]


def remove_placement_group(pg_id: str) -> None:
    """Remove a placement group by its id (hex)."""
    from ray.util.placement_group import PlacementGroup, remove_placement_group

    remove_placement_group(PlacementGroup(ray.PlacementGroupID(bytes.fromhex(pg_id))))


def live_actors() -> dict[str, tuple[str, int]]:
    """Give the live actors, as id (hex) → (class name, pid); no dashboard is needed.

    Ray's own cluster-wide actors, which it starts once and keeps, are left out.
    """
    import ray._private.state as private_state

    return {
        actor_id: (str(row.get("ActorClassName", "actor")), int(row.get("Pid", 0)))
        for actor_id, row in private_state.actors().items()
        if row["State"] != "DEAD" and row.get("ActorClassName") not in RAYS_OWN_ACTORS
    }


# -- inside Ray Train ----------------------------------------------------------------------------


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


def resources_per_worker(scaling_config: Any) -> dict[str, float]:  # noqa: ANN401
    """Give what one worker asks for, defaults filled in."""
    return dict(scaling_config._resources_per_worker_not_none)  # noqa: SLF001
