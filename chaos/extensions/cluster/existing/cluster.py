"""A cluster that runs already: the connection to it, its nodes, and the checks before a run."""

import logging
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from chaos.errors import ClusterError
from chaos.extensions.cluster.existing.meters import Meters
from chaos.extensions.cluster.existing.nodes import find_unshared_nodes, list_nodes
from chaos.extensions.cluster.existing.run_terms import ExistingTerms
from chaos.extensions.cluster.existing.terms import ClusterFacts
from chaos.launch.ray import compat
from chaos.launch.ray.authentication import Authentication
from chaos.launch.ray.deaths import Death
from chaos.launch.ray.ports import RayCluster
from chaos.launch.ray.settings import NAMESPACE
from chaos.model.plan import Plan, Shape
from chaos.plan.permissions import (
    InjectionGuard,
    NodeFacts,
    Permissions,
    find_missing_permission,
    find_refusals,
)
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.ports import Say, ShowEntries
from chaos.run.remote_files import remove_token_file, write_token_file

CONNECT_S = 5.0


class ExistingCluster(RayCluster):
    """A cluster that chaos did not start, for the time of one connection."""

    is_ours = False
    is_repaired = False

    def __init__(self, shape: Shape, permissions: Permissions, report: Say) -> None:
        self.shape = shape
        self.agents: dict[str, Any] = {}
        self._permissions = permissions
        self._connection = connect(self.address)  # nothing is started or changed there
        self.dashboard = self._connection.dashboard
        self._meters = Meters(report, SystemClock())

    @property
    def driver_env(self) -> dict[str, str]:
        return {"RAY_ADDRESS": self.address}

    @property
    def address(self) -> str:
        assert self.shape.address is not None
        return self.shape.address

    def prepare(self, plan: Plan, directory: RunDirectory, token: str) -> ExistingTerms:
        """Prepare a plan's run; raises `ClusterError` if it may not or cannot be executed here."""
        missing = find_missing_permission(plan, self._permissions)
        reasons = [missing] if missing else [*map(str, find_refusals(plan, self._permissions))]
        if plan.shape.metadata is not None:
            reasons.append("cluster.metadata is served on this machine, for a cluster of chaos's")
        if reasons:
            raise ClusterError("; ".join(reasons), "Nothing was done to the cluster.")
        cluster_nodes = list_nodes()
        if not any(node.cpus > 0 for node in cluster_nodes):
            raise ClusterError(f"no node of the cluster at {self.address} has CPUs for workers")
        write_token_file(directory.path, token)
        # By a mark that is written here and looked for there, and not by the path: a folder of the
        # same name on each node's own disk looks shared, and checkpoints in it would be lost with
        # their node.
        unshared = find_unshared_nodes(cluster_nodes, directory.path, token)
        if self.shape.storage is not None or unshared:
            self._link_storage(plan, directory, token, cluster_nodes)
        if unshared:
            _check_storage_faults(plan, unshared)
        facts = ClusterFacts(
            token=token,
            guard=InjectionGuard.from_nodes(cluster_nodes, self._permissions),
            own_address=next(node.address for node in cluster_nodes if node.is_own),
            unshared_nodes=frozenset(node.node_id for node in unshared),
            reclaim_by=plan.shape.reclaim_by,
        )
        return ExistingTerms(facts)

    def show_and_record(self, show: ShowEntries, plan: Plan) -> ShowEntries:
        """Return a function that shows a run's entries, and also records their metrics."""
        return self._meters.wrap_show(show, plan)

    def heal(self, lost_nodes: set[str]) -> None:
        """Do nothing: chaos does not replace lost nodes here."""

    def find_deaths(self) -> list[Death]:
        """Return none: its processes are not children of this one."""
        return []

    def close(self) -> None:
        self._meters.await_export()
        self._connection.close()

    def _link_storage(
        self, plan: Plan, directory: RunDirectory, token: str, cluster_nodes: list[NodeFacts]
    ) -> None:
        """Put the job's checkpoints into a folder that every node reaches.

        The folder is linked from the run's directory. Without one the job must
        have remote storage of its own; the driver refuses it otherwise.
        """
        storage = self.shape.storage
        if storage is None:
            names = ", ".join(node.address for node in cluster_nodes if node.cpus > 0)
            directory.write("storage-apart", names)
        elif "://" not in storage:
            folder = Path(storage) / f"chaos-{plan.slug}-{token}"
            try:
                write_token_file(folder, token)
            except OSError as error:
                raise ClusterError(f"cluster.storage {storage}: {error.strerror}") from error
            unshared = find_unshared_nodes(cluster_nodes, folder, token)
            remove_token_file(folder)
            if unshared:
                shutil.rmtree(folder, ignore_errors=True)
                raise ClusterError(
                    f"cluster.storage {storage} is not the same on all nodes: "
                    f"{', '.join(node.address for node in unshared)} does not see what is written "
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

    @compat.preserve_signal_handlers()
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
        authentication.follow_cluster(address)
        dashboard = _join(address)
    except BaseException:
        authentication.restore()
        raise
    return Connection(dashboard, authentication)


@compat.preserve_signal_handlers()
def _join(address: str) -> str | None:
    try:
        context = ray.init(
            address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR
        )
    except (RuntimeError, ConnectionError, ValueError) as error:
        raise ClusterError(
            f"the cluster at {address} cannot be joined: {str(error).strip().splitlines()[0]}",
            "chaos must run on a node of the cluster, with its versions of Ray and Python.",
        ) from error
    compat.redirect_messages()
    url = context.dashboard_url
    return f"http://{url}" if url else None


def _check_storage_faults(plan: Plan, unshared: list[NodeFacts]) -> None:
    storage_op = next((op for op in plan.ops if op.fault.family == "storage"), None)
    if storage_op is not None:
        raise ClusterError(
            f"{storage_op.kind} needs a run directory that every node sees; node "
            f"{unshared[0].node_id[:8]} ({unshared[0].address}) does not see it",
            "Give --reports a folder on a file system that all nodes share.",
        )
