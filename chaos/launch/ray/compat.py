"""Every private or unstable name of Ray's core that chaos uses, and nothing else.

Read in Ray 2.60.0. An upgrade of Ray is reviewed here: each name has a test that
imports it, and no code but the functions below depends on the form of its value.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Collection, Iterator
from typing import Any

import ray

READ_IN = "2.60.0"
# From the first version on, before the second. Private names were read in it.
TESTED = ((2, 60), (2, 61))
CONTROLLER = "TrainController"
# Named, detached actors, one of each per cluster: Ray keeps them for later jobs.
RAYS_OWN_ACTORS = (
    "ActorLocationTracker",
    "AutoscalingRequester",
    "_AutoscalingCoordinatorActor",
    "_StatsActor",
    "_StatsSummaryActor",
    "_UsageCollectionActor",
)
# Read by `ray start`: the id of its node, and for how long this drains on SIGTERM.
NODE_ID_ENV = "RAY_OVERRIDE_NODE_ID_FOR_TESTING"
DRAIN_ENV = "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"
# Of the id of an actor or a placement group, the last ones are its job's.
_JOB_DIGITS = 8


def untested_version(version: str = ray.__version__) -> str | None:
    """Return a warning if Ray's version is outside the tested range, otherwise None."""
    parts = tuple(int(part) for part in version.split(".")[:2])
    if TESTED[0] <= parts < TESTED[1]:
        return None
    low, high = (".".join(map(str, bound)) for bound in TESTED)
    return (
        f"Ray {version} is outside the range chaos was tested with (>={low},<{high}); private "
        f"names were read in {READ_IN} and may have moved (chaos/launch/ray/compat.py)"
    )


# -- a local cluster ---------------------------------------------------------------------------


def visible_gpus() -> tuple[str, ...]:
    """Return the NVIDIA GPUs that this process may use, by their ids in `CUDA_VISIBLE_DEVICES`.

    The same ones that Ray would find, by the GPU's driver (NVML), without starting CUDA.
    """
    from ray._private.accelerators import NvidiaGPUAcceleratorManager as Nvidia

    count = Nvidia.get_current_node_num_accelerators()
    visible = Nvidia.get_current_process_visible_accelerator_ids()
    return tuple(map(str, range(count))) if visible is None else tuple(visible[:count])


def gpu_type() -> str | None:
    """Return the type of this machine's GPUs, by which Ray names a resource of its nodes."""
    from ray._private.accelerators import NvidiaGPUAcceleratorManager as Nvidia

    name: str | None = Nvidia.get_current_node_accelerator_type()
    return name


def new_cluster(head_args: dict[str, Any]) -> Any:  # a Cluster of Ray
    """Start a head node, and return its `ray.cluster_utils.Cluster` (DeveloperAPI).

    The machine-global file that `ray.init("auto")` reads is left as it is:
    Cluster would overwrite it with this address, and other programs would
    connect to this cluster.
    """
    import ray._private.utils as private_utils
    from ray.cluster_utils import Cluster

    original = private_utils.write_ray_address
    private_utils.write_ray_address = lambda *_args, **_kwargs: None
    try:
        return Cluster(initialize_head=True, head_node_args=head_args)
    finally:
        private_utils.write_ray_address = original


@contextlib.contextmanager
def preserve_signal_handlers() -> Iterator[None]:
    """Keep this process's signal handlers, which Ray replaces.

    Ray sets its own for SIGTERM when a node starts, when a driver connects and, in C++, once
    more; when it disconnects, none. They end the process with code 1 or by SIGABRT.
    """
    import ray._private.utils as private_utils

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    original_handlers = {number: signal.getsignal(number) for number in signals}
    original = private_utils.set_sigterm_handler
    private_utils.set_sigterm_handler = lambda _handler: None
    try:
        yield
    finally:
        private_utils.set_sigterm_handler = original
        if threading.current_thread() is threading.main_thread():
            for number, handler in original_handlers.items():
                if handler is not None:
                    signal.signal(number, handler)


def redirect_messages() -> None:
    """Send messages of raylets to the driver, such as of a lost node, to the log `chaos.ray`.

    Ray prints them even with `log_to_driver=False`.
    """
    import ray._private.worker as private_worker

    log = logging.getLogger("chaos.ray")

    def log_message(message: dict[str, Any], **_: Any) -> None:  # Ray's keywords
        log.debug("%s", "\n".join(message.get("lines", ())))

    private_worker.print_to_stdstream = log_message


def end_gcs(cluster: Any) -> int:  # a Cluster of Ray
    """Kill the GCS server of a cluster's head; return its pid."""
    pid = _gcs_pid(cluster)
    cluster.head_node.kill_gcs_server()
    return pid


def start_gcs(cluster: Any) -> int:  # a Cluster of Ray
    """Start the head's GCS server again, on its port and with its storage; return its pid."""
    cluster.head_node.start_gcs_server()
    return _gcs_pid(cluster)


def _gcs_pid(cluster: Any) -> int:  # a Cluster of Ray
    from ray._private.ray_constants import PROCESS_TYPE_GCS_SERVER

    return int(cluster.head_node.all_processes[PROCESS_TYPE_GCS_SERVER][0].process.pid)


def gcs_answers(address: str) -> bool:
    """Return whether the GCS at an address answers."""
    return _gcs_error(address) is None


def _gcs_error(address: str) -> Exception | None:
    from ray._raylet import GcsClient  # type: ignore[attr-defined]

    try:
        GcsClient(address=address).internal_kv_keys(b"", None, timeout=1.0)
    except Exception as error:  # noqa: BLE001 - whatever a client says that finds none
        return error
    return None


def find_exited_processes(cluster: Any) -> Iterator[tuple[str, str, int, int]]:  # a Cluster
    """Yield (kind, node id, pid, exit code) of raylets and GCS that Ray was not asked to end."""
    from ray._private.ray_constants import PROCESS_TYPE_GCS_SERVER, PROCESS_TYPE_RAYLET

    for node in (cluster.head_node, *cluster.worker_nodes):
        for kind in (PROCESS_TYPE_GCS_SERVER, PROCESS_TYPE_RAYLET):
            for process_info in node.all_processes.get(kind, ()):
                code = process_info.process.poll()
                if code is not None:
                    yield kind, get_node_id(node), int(process_info.process.pid), code


def get_node_id(node: Any) -> str:  # a Node of Ray
    """Return the hex id of a node object that `Cluster.add_node` returned."""
    return str(node.node_id)


def is_head(row: dict[str, Any]) -> bool:
    """Return whether a row of `ray.nodes()` is the head's, which has a resource of its own."""
    return "node:__internal_head__" in row.get("Resources", {})


# -- who may use a cluster ---------------------------------------------------------------------


def reload_authentication() -> None:
    """Reset Ray's authentication in this process to the environment's settings.

    The mode is read first: otherwise a thread of Ray that still runs would look for a token
    that is gone.
    """
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def has_token() -> bool:
    """Return whether Ray finds a token by the environment, or in the home directory."""
    from ray._raylet import AuthenticationTokenLoader  # type: ignore[attr-defined]

    try:
        return bool(AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True))
    except ray.exceptions.AuthenticationError:
        return False  # the named file is empty or missing


def is_refused(address: str) -> bool:
    """Return whether the GCS at an address refuses this process for its token, or for having none.

    No answer, or that of another program, is no refusal.
    """
    return isinstance(_gcs_error(address), ray.exceptions.AuthenticationError)


# -- the control plane -------------------------------------------------------------------------


def drain_for_preemption(address: str, node_id: str, deadline_unix_ms: int) -> tuple[bool, str]:
    """Announce to the GCS that a node will be preempted; return (accepted, reason)."""
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.core.generated import autoscaler_pb2

    reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    accepted, explanation = GcsClient(address=address).drain_node(
        node_id, reason, "spot reclaim, injected by chaos", deadline_unix_ms
    )
    return bool(accepted), str(explanation)


def open_placement_groups() -> list[str]:
    """Return the ids (hex) of placement groups that are not removed, in the connected cluster."""
    table = ray.util.placement_group_table()
    return [pg_id for pg_id, row in table.items() if row["state"] != "REMOVED"]


def remove_placement_group(pg_id: str) -> None:
    """Remove a placement group by its id (hex)."""
    from ray.util.placement_group import PlacementGroup, remove_placement_group

    remove_placement_group(PlacementGroup(ray.PlacementGroupID(bytes.fromhex(pg_id))))


def metrics_interval_s() -> float:
    """Return the interval at which this process sends its metrics: in Ray 2.60 at least 1 s."""
    interval_ms = int(ray._config.metrics_report_interval_ms())  # noqa: SLF001
    return max(interval_ms, 1000) / 1000


def draining_nodes() -> dict[str, int]:
    """Return the nodes (hex) whose loss is announced, each with its deadline (unix ms; 0: none)."""
    import ray._private.state as private_state

    return dict(private_state.state.get_draining_nodes())


def get_job(handle: Any) -> str:  # an actor handle
    """Return the job (hex) of an actor: ids of actors and groups end with their job's."""
    return str(handle._actor_id.hex())[-_JOB_DIGITS:]  # noqa: SLF001


def belongs_to_job(identity: str, jobs: Collection[str]) -> bool:
    """Return whether an actor or a placement group (hex id) belongs to one of these jobs."""
    return identity[-_JOB_DIGITS:] in jobs


def live_actors() -> dict[str, tuple[str, int]]:
    """Return the live actors, as id (hex) → (class name, pid); no dashboard is needed.

    Ray's own cluster-wide actors, which it starts once and keeps, are left out.
    """
    import ray._private.state as private_state

    return {
        actor_id: (str(row.get("ActorClassName", "actor")), int(row.get("Pid", 0)))
        for actor_id, row in private_state.actors().items()
        if row["State"] != "DEAD" and row.get("ActorClassName") not in RAYS_OWN_ACTORS
    }
