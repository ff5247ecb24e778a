"""The port to the extension `cluster`: running Ray clusters, their platforms, emulated clouds."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from chaos.extension_modules import load_extension_module
from chaos.faults.world import Target
from chaos.model.launcher import DEFAULT_LAUNCHER
from chaos.model.plan import Plan, Shape
from chaos.model.scenario import Cloud
from chaos.plan.permissions import NodeFacts, Permissions
from chaos.run.journal import Journal
from chaos.run.ports import Backend, Say

if TYPE_CHECKING:  # Ray takes a second
    from chaos.launch.ray.ports import RayCluster


class MetadataService(Protocol):
    """A cloud's instance metadata service, emulated for the job of one run."""

    def variables(self) -> dict[str, str]:
        """Return the environment by which a job's own client finds the service."""

    def post(self, node_id: str, *, deadline_ns: int) -> None:
        """Announce to a node's processes that it goes at a deadline (monotonic ns)."""

    def close(self) -> None:
        """Stop answering; nothing is recorded any more."""


class ClusterExtension(Protocol):
    """The services of the extension; platforms and emulated clouds need no Ray."""

    def find_nodes(self, address: str) -> list[NodeFacts]:
        """Return the nodes of a running cluster; raises `ClusterError` if none can be joined."""

    def join_cluster(self, shape: Shape, permissions: Permissions, report: Say) -> "RayCluster":
        """Return the running cluster that a shape names; raises `ClusterError` without one."""

    def open_lanes(
        self, address: str, *, workers: int, lanes_max: int, check: Callable[[Backend], None]
    ) -> AbstractContextManager[list[Backend]]:
        """Return embedded backends on its nodes; `check` is called with each."""

    def check_platform(self, reclaim_by: str) -> None:
        """Raise `UsageError` where a platform's client is not installed or has no settings."""

    def find_machines(self, reclaim_by: str, nodes: Sequence[NodeFacts]) -> dict[str, str]:
        """Return by node the machine that a platform would take, or why it would refuse."""

    def open_metadata(
        self,
        cloud: Cloud,
        group: Callable[[], Mapping[int, Target]],
        log: Path,
        journal: Journal,
    ) -> MetadataService:
        """Serve a cloud's metadata to the workers that `group` returns, by their ranks."""


def load_cluster_extension(feature: str) -> ClusterExtension:
    """Return the extension; raises `UsageError` where it is not installed."""
    extension: ClusterExtension = load_extension_module("cluster.entry", feature).ClusterEntry()
    return extension


def require_cluster_extension(plan: Plan) -> None:
    """Raise `UsageError` where a plan needs the extension, and it is not installed."""
    shape, is_on_ray = plan.shape, plan.job.launcher == DEFAULT_LAUNCHER
    needs = {
        "cluster.reclaim_by (--reclaim-by)": shape.reclaim_by,
        "cluster.address (--address)": shape.address if is_on_ray else None,
        "cluster.metadata": shape.metadata,
    }
    for feature, value in needs.items():
        if value is not None:
            load_cluster_extension(feature)
