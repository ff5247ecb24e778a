"""A cluster that runs already: the connection to it, its nodes, and the checks before a run."""

import logging
import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from chaos.errors import ClusterError
from chaos.launch.ray import compat
from chaos.launch.ray.authentication import Authentication
from chaos.launch.ray.deaths import Death
from chaos.launch.ray.existing.terms import ClusterFacts
from chaos.launch.ray.settings import NAMESPACE
from chaos.model.plan import Plan, Shape
from chaos.plan.permitted import Guard, NodeFacts, Permissions, needs_permission, refusals
from chaos.run.directory import RunDirectory
from chaos.run.files_elsewhere import leave_mark, remove_mark, sees

CONNECT_S = 5.0


class ExistingCluster:
    """A cluster that chaos did not start, for the time of one connection."""

    is_ours = False
    is_mended = False

    def __init__(self, shape: Shape, permissions: Permissions) -> None:
        self.shape = shape
        self.agents: dict[str, Any] = {}
        self._permissions = permissions
        self._connection = connect(self.address)  # nothing is started or changed there
        self.dashboard = self._connection.dashboard

    @property
    def driver_env(self) -> dict[str, str]:
        return {"RAY_ADDRESS": self.address}

    @property
    def address(self) -> str:
        assert self.shape.address is not None
        return self.shape.address

    def prepare(self, plan: Plan, directory: RunDirectory, token: str) -> ClusterFacts:
        """Prepare a plan's run; raises `ClusterError` if it may not or cannot be executed here."""
        missing = needs_permission(plan, self._permissions)
        refused = [missing] if missing else [*map(str, refusals(plan, self._permissions))]
        if plan.shape.metadata is not None:
            refused.append("cluster.metadata is served on this machine, for a cluster of chaos's")
        if refused:
            raise ClusterError("; ".join(refused), "Nothing was done to the cluster.")
        known = nodes()
        if not any(node.cpus > 0 for node in known):
            raise ClusterError(f"no node of the cluster at {self.address} has CPUs for workers")
        leave_mark(directory.path, token)
        # By a mark that is written here and looked for there, and not by the path: a folder of the
        # same name on each node's own disk looks shared, and checkpoints in it would be lost with
        # their node.
        elsewhere = blind_nodes(known, directory.path, token)
        if self.shape.storage is not None or elsewhere:
            self._place_storage(plan, directory, token, known)
        if elsewhere:
            _refuse_storage_faults(plan, elsewhere)
        return ClusterFacts(
            token=token,
            guard=Guard.over(known, self._permissions),
            own=next(node.address for node in known if node.is_own),
            elsewhere=frozenset(node.node_id for node in elsewhere),
            reclaim_by=plan.shape.reclaim_by,
        )

    def heal(self, lost: set[str]) -> None:
        """Do nothing: chaos does not replace lost nodes here."""

    def deaths(self) -> list[Death]:
        """Return none: its processes are not children of this one."""
        return []

    def close(self) -> None:
        self._connection.close()

    def _place_storage(
        self, plan: Plan, directory: RunDirectory, token: str, known: list[NodeFacts]
    ) -> None:
        """Put the job's checkpoints into a folder that every node reaches.

        The folder is linked from the run's directory. Without one the job must
        have remote storage of its own; the driver refuses it otherwise.
        """
        storage = self.shape.storage
        if storage is None:
            names = ", ".join(node.address for node in known if node.cpus > 0)
            directory.write("storage-apart", names)
        elif "://" not in storage:
            folder = Path(storage) / f"chaos-{plan.slug}-{token}"
            try:
                leave_mark(folder, token)
            except OSError as error:
                raise ClusterError(f"cluster.storage {storage}: {error.strerror}") from error
            blind = blind_nodes(known, folder, token)
            remove_mark(folder)
            if blind:
                shutil.rmtree(folder, ignore_errors=True)
                raise ClusterError(
                    f"cluster.storage {storage} is not the same on all nodes: "
                    f"{', '.join(node.address for node in blind)} does not see what is written "
                    "here",
                    "Give a folder on a file system that all nodes share, or a URI (s3://...).",
                )
            directory.storage.symlink_to(folder)


@dataclass(frozen=True)
class Connection:
    """The connection to a cluster."""

    #: the address of its dashboard, if it has one
    dashboard: str | None
    authentication: Authentication

    @compat.keeping_signal_handlers()
    def close(self) -> None:
        """Disconnect; a second call does nothing."""
        if ray.is_initialized():
            ray.shutdown()
        self.authentication.restore()


def connect(address: str) -> Connection:
    """Connect this process to a running cluster; raises `ClusterError` if it cannot."""
    if ray.is_initialized():
        raise ClusterError(
            "this process is connected to a Ray cluster already",
            "Run chaos in a process that has not called ray.init().",
        )
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray cluster answers at {address}: {error}",
            "Give the address that `ray start --head` printed, on a machine of the cluster.",
        ) from error
    authentication = Authentication()
    try:
        authentication.follow(address)
        dashboard = _join(address)
    except BaseException:
        authentication.restore()
        raise
    return Connection(dashboard, authentication)


@compat.keeping_signal_handlers()
def _join(address: str) -> str | None:
    try:
        joined = ray.init(
            address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR
        )
    except (RuntimeError, ConnectionError, ValueError) as error:
        raise ClusterError(
            f"the cluster at {address} cannot be joined: {str(error).strip().splitlines()[0]}",
            "chaos must run on a node of the cluster, with its versions of Ray and Python.",
        ) from error
    compat.keep_messages_off_the_terminal()
    url = joined.dashboard_url
    return f"http://{url}" if url else None


def _refuse_storage_faults(plan: Plan, elsewhere: list[NodeFacts]) -> None:
    found = next((op for op in plan.ops if op.fault.family == "storage"), None)
    if found is not None:
        raise ClusterError(
            f"{found.kind} needs a run directory that every node sees; node "
            f"{elsewhere[0].node_id[:8]} ({elsewhere[0].address}) does not see it",
            "Give --reports a folder on a file system that all nodes share.",
        )


ANSWER_S = 60.0


def nodes() -> list[NodeFacts]:
    """Return the nodes that are alive in the connected cluster."""
    own = ray.get_runtime_context().get_node_id()
    return [
        NodeFacts(
            node_id=row["NodeID"],
            address=row["NodeManagerAddress"],
            cpus=float(row["Resources"].get("CPU", 0.0)),
            port=int(row["NodeManagerPort"]),
            hostname=row["NodeManagerHostname"],
            is_head=compat.is_head(row),
            is_own=row["NodeID"] == own,
        )
        for row in ray.nodes()
        if row["Alive"]
    ]


def blind_nodes(known: Sequence[NodeFacts], folder: Path, token: str) -> list[NodeFacts]:
    """Return the nodes that can hold workers and do not see a folder with a run's mark.

    Nothing is done there but to look at a file. Raises `ClusterError` if chaos is
    not installed on a node.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    asked = [node for node in known if node.cpus > 0]
    answers = [
        _look.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        ).remote(str(folder), token)
        for node in asked
    ]
    blind = []
    for node, answer in zip(asked, answers, strict=True):
        try:
            if not ray.get(answer, timeout=ANSWER_S):
                blind.append(node)
        except ray.exceptions.GetTimeoutError as error:
            raise _no_answer(node, f"it did not answer within {ANSWER_S:g} s") from error
        except ray.exceptions.RayError as error:
            raise _no_answer(node, str(error).strip().splitlines()[-1]) from error
    return blind


def _no_answer(node: NodeFacts, why: str) -> ClusterError:
    return ClusterError(
        f"node {node.node_id[:8]} ({node.address}) could not be looked at: {why}",
        "chaos must be installed on every node that may hold workers, in the same version",
    )


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def _look(folder: str, token: str) -> bool:
    return sees(Path(folder), token)
