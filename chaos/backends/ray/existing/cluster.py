"""A cluster that runs already: the connection to it, and the checks before a run."""

import logging
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import ray

from chaos.backends.ray import compat
from chaos.backends.ray.authentication import Authentication
from chaos.backends.ray.deaths import Death
from chaos.backends.ray.existing.survey import blind_nodes, nodes
from chaos.backends.ray.existing.terms import Terms
from chaos.backends.ray.settings import NAMESPACE
from chaos.errors import ClusterError
from chaos.model.plan import Plan, Shape
from chaos.plan.permitted import Guard, NodeFacts, Permissions, needs_permission, refusals
from chaos.run.apart import leave_mark, remove_mark
from chaos.run.directory import RunDirectory

CONNECT_S = 5.0


class ExistingCluster:
    """A cluster that chaos did not start, for the time of one connection."""

    is_ours = False
    is_mended = False

    def __init__(self, shape: Shape, permissions: Permissions, connection: "Connection") -> None:
        self.shape = shape
        self.dashboard = connection.dashboard
        self.agents: dict[str, Any] = {}
        self._permissions = permissions
        self._connection = connection

    @classmethod
    def connect(cls, shape: Shape, permissions: Permissions) -> Self:
        """Connect to a cluster; nothing is started or changed there."""
        return cls(shape, permissions, connect(shape.address or ""))

    @property
    def driver_env(self) -> dict[str, str]:
        """The cluster's variables in a driver's environment."""
        return {"RAY_ADDRESS": self.address}

    @property
    def address(self) -> str:
        """The address that the user gave."""
        assert self.shape.address is not None
        return self.shape.address

    def prepare(self, plan: Plan, directory: RunDirectory, token: str) -> Terms:
        """Prepare a plan's run; raises `ClusterError` if it may not or cannot be executed here."""
        missing = needs_permission(plan, self._permissions)
        refused = [missing] if missing else [*map(str, refusals(plan, self._permissions))]
        if refused:
            raise ClusterError("; ".join(refused), "Nothing was done to the cluster.")
        known = nodes()
        _refuse_without_room(known, self.address)
        leave_mark(directory.path, token)
        apart = blind_nodes(known, directory.path, token)
        if self.shape.storage is not None or apart:
            self._place_storage(plan, directory, token, known)
        if apart:
            _refuse_storage_faults(plan, apart)
        return Terms(
            token=token,
            guard=Guard.over(known, self._permissions),
            own=next(node.address for node in known if node.is_own),
            apart=frozenset(node.node_id for node in apart),
        )

    def heal(self, lost: set[str]) -> None:
        """Do nothing: chaos does not replace lost nodes here."""

    def grow(self, count: int) -> dict[str, Any]:
        """Refuse: chaos starts no nodes here."""
        raise AssertionError(count)  # refused in `prepare`

    def end_gcs(self) -> int:
        """Refuse: chaos did not start the GCS."""
        raise AssertionError  # refused in `prepare`

    def start_gcs(self) -> int:
        """Refuse: chaos did not start the GCS."""
        raise AssertionError  # refused in `prepare`

    def deaths(self) -> list[Death]:
        """Return none: its processes are not children of this one."""
        return []

    def close(self) -> None:
        """Disconnect."""
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
    """The connection to a cluster; `dashboard` is the address of its dashboard, if it has one."""

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


def _refuse_without_room(known: list[NodeFacts], address: str) -> None:
    if not any(node.cpus > 0 for node in known):
        raise ClusterError(f"no node of the cluster at {address} has CPUs for workers")


def _refuse_storage_faults(plan: Plan, apart: list[NodeFacts]) -> None:
    found = next((op for op in plan.ops if op.fault.family == "storage"), None)
    if found is not None:
        raise ClusterError(
            f"{found.kind} needs a run directory that every node sees; node "
            f"{apart[0].node_id[:8]} ({apart[0].address}) does not see it",
            "Give --reports a folder on a file system that all nodes share.",
        )
