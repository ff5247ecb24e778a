"""Replacement of Ray's core, as far as Ray Train calls it, by `core`.

Every private name is here, read in Ray 2.60.0. Ray Train reaches its core
through attributes of the module `ray` and through a few imported names; both
are replaced in the root, before any user's script runs.
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import ray

from chaos.errors import NeedsClusterError
from chaos.launch.forked import core
from chaos.launch.forked import unsupported_calls as needs
from chaos.launch.forked.reports import PendingReports
from chaos.launch.node_disk import HEAD
from chaos.launch.raytrain import CALLBACK
from chaos.run.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaos.launch.forked.cluster import ForkCluster


class Session:
    """The part of the process's Ray node that Ray Train reads: the folder of the session."""

    def get_session_dir_path(self) -> str:
        return core.Context.session


class ActorClass:
    """`ray.remote(...)(SomeClass)` of Ray Train's own classes."""

    def __init__(self, cls: Any, options: dict[str, Any]) -> None:
        self._cls = cls
        self._options = options

    def options(self, **options: Any) -> ActorClass:
        return ActorClass(self._cls, {**self._options, **options})

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Start an actor: a worker as a process, anything else as an object in the driver."""
        cluster = _current_cluster()
        if issubclass(self._cls, worker_class()):
            slot = self._options["scheduling_strategy"]
            env = self._options.get("runtime_env", {}).get("env_vars", {})
            return cluster.start_worker(slot.node(), env)
        return cluster.start_object(self._cls(*args, **kwargs))


class Placement:
    """A placement group: as many slots as there are bundles, on nodes that are alive."""

    def __init__(self, bundles: list[dict[str, float]], **_: Any) -> None:
        self._count = len(bundles)
        self.nodes: list[str] = []

    def wait(self, timeout_seconds: float) -> bool:
        self.nodes = _current_cluster().await_slots(self._count, within_s=timeout_seconds)
        return len(self.nodes) == self._count


class Slot:
    """The place of one worker in a placement group."""

    def __init__(self, placement_group: Placement, placement_group_bundle_index: int) -> None:
        self._placement = placement_group
        self._index = placement_group_bundle_index

    def node(self) -> str:
        return self._placement.nodes[self._index]


# They clean up placement groups and feed Ray Data: neither is here.
_CLUSTER_CALLBACKS = ("PlacementGroupCleanerCallback", "DatasetsCallback")
_cluster: list[ForkCluster] = []


def use_cluster(cluster: ForkCluster) -> None:
    """Use this cluster from now on; the driver of a run calls this once."""
    _cluster[:] = [cluster]


def _current_cluster() -> ForkCluster:
    if not _cluster:
        raise NeedsClusterError.from_feature("an actor of Ray outside of `trainer.fit()`")
    return _cluster[0]


def _cluster_resources() -> dict[str, float]:
    """Return the CPUs of the nodes that are alive; before `fit()`, of all nodes of the plan."""
    if core.Context.node_id != HEAD:
        raise NeedsClusterError.from_feature("`ray.cluster_resources()` in a worker")
    if not _cluster:
        return core.Context.resources
    nodes = _cluster[0].find_capacity().values()
    return {"CPU": sum(node["CPU"] for node in nodes)}


def _available_resources() -> dict[str, float]:
    """Return the CPUs of the plan's nodes; before `fit()` nothing uses them."""
    if _cluster or core.Context.node_id != HEAD:
        raise NeedsClusterError.from_feature("`ray.available_resources()` once fit() was called")
    return core.Context.resources


def worker_class() -> Any:
    """Return Ray Train's worker, a plain class until `ray.remote` makes an actor of it."""
    from ray.train.v2._internal.execution.worker_group.worker import RayTrainWorker

    return RayTrainWorker


def replace_core() -> None:
    """Replace Ray's core by `core`, for this process and all that it forks."""
    from ray.train.v2._internal.execution import preemption
    from ray.train.v2._internal.execution.checkpoint.sync_actor import SynchronizationActor
    from ray.train.v2._internal.execution.worker_group import placement_group_handle, worker_group

    context = core.Context()
    ray._private.worker._global_node = Session()  # noqa: SLF001
    ray.get, ray.put, ray.wait = core.get, core.StoredResult, core.wait
    ray.remote = needs.remote(ActorClass)
    ray.kill = lambda actor, **_: actor.end()
    ray.nodes = list
    ray.init = lambda *_, **__: context
    ray.shutdown = lambda *_, **__: None  # as there: another init() may follow
    ray.cluster_resources, ray.available_resources = _cluster_resources, _available_resources
    ray.is_initialized = lambda: True
    ray.get_runtime_context = lambda: context
    ray.util.get_node_ip_address = lambda: "127.0.0.1"
    synchronization = SynchronizationActor.__ray_metadata__.modified_class
    worker_group.SynchronizationActor = ActorClass(synchronization, {})
    worker_group.placement_group = Placement
    worker_group.PlacementGroupSchedulingStrategy = Slot
    worker_group.ray_state.get_max_resources_from_cluster_config = lambda: None
    placement_group_handle.remove_placement_group = lambda _: None
    preemption._get_draining_nodes = lambda: _current_cluster().port.draining()  # noqa: PLW0108, SLF001
    _replace_autoscaling()
    _prefer_reports(worker_group.WorkerGroup)


def _prefer_reports(group_class: Any) -> None:
    poll, clock = group_class._poll_workers_and_collect_errors, SystemClock()  # noqa: SLF001

    def poll_workers(group: Any, timeout: float | None) -> list[Any]:
        statuses: list[Any] = poll(group, timeout)
        pending_reports = vars(group).setdefault("_chaos_reports", PendingReports())
        if pending_reports.hides_errors(dict(enumerate(statuses)), clock.now_ns()):
            for status in statuses:
                status.running = status.running or status.error is not None
                status.error = None
        return statuses

    group_class._poll_workers_and_collect_errors = poll_workers  # noqa: SLF001


def _replace_autoscaling() -> None:
    """Show an elastic policy all nodes that are alive: no other job uses them here."""
    from ray.train.v2._internal.execution.scaling_policy.elastic import ElasticScalingPolicy
    from ray.train.v2._internal.execution.scaling_policy.scaling_policy import ScalingPolicy

    for method in ("_maybe_send_resource_request", "_send_resource_request"):
        setattr(ScalingPolicy, method, lambda _: None)
    ScalingPolicy.after_controller_start = lambda *_: None
    ElasticScalingPolicy._get_reserved_resources = lambda _: _current_cluster().find_capacity()  # noqa: SLF001


def run_controllers_locally(run: Callable[[Any, dict[str, Any]], Any]) -> None:
    """Replace the controller actor of `fit()`: `run` is called with the actor's arguments."""
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    def start(trainer: Any, **arguments: Any) -> Any:
        if trainer.datasets:
            raise NeedsClusterError.from_feature("Ray Data (`datasets=` of the trainer)")
        callbacks = arguments["callbacks"]
        arguments["callbacks"] = [
            c for c in callbacks if type(c).__name__ not in _CLUSTER_CALLBACKS
        ]
        return run(controller_class(), arguments)

    DataParallelTrainer._initialize_and_run_controller = start  # noqa: SLF001


def controller_class() -> Any:
    """Return Ray Train's controller, a plain class until `ray.remote` makes an actor of it."""
    from ray.train.v2._internal.execution.controller import TrainController

    return TrainController


# Modules that workers and drivers were seen to import after their fork (Ray 2.60, torch 2.13):
# `ray.tune` alone costs a worker 60 ms, more than its process group.
WARM = (
    "ray.train.torch",
    "ray.tune",
    "ray.data._internal.issue_detection.issue_detector_manager",
    "ray.data._internal.operator_event_exporter",
    "ray.train.v2._internal.callbacks.preemption_callback",
    "torch._dynamo",
    "torch.distributed",
    "torch.profiler._cupti_monitor",
    "torch.utils.serialization.config",
)


def warm_up() -> None:
    """Import once the modules that every worker would import for itself."""
    importlib.import_module(CALLBACK.rpartition(".")[0])
    for name in WARM:
        with suppress(ModuleNotFoundError):  # another release of torch or Ray may have none
            importlib.import_module(name)
