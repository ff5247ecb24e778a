"""The cluster of a run, either a local one or an existing one."""

from typing import Any, Protocol

from chaos.backends.ray.cluster import LocalCluster
from chaos.backends.ray.deaths import Death
from chaos.backends.ray.existing.cluster import ExistingCluster
from chaos.backends.ray.existing.terms import Terms
from chaos.model.plan import Plan, Shape
from chaos.plan.permitted import Permissions
from chaos.run import leavings
from chaos.run.directory import RunDirectory


class RayCluster(Protocol):
    """A cluster as a run needs it; `agents` are those started before a run, by node."""

    shape: Shape
    agents: dict[str, Any]
    is_mended: bool  # nodes of it were replaced between two runs
    dashboard: str | None  # the address of Ray's dashboard, if there is one

    @property
    def is_ours(self) -> bool:
        """Whether chaos has started the cluster, and ends it."""

    @property
    def address(self) -> str:
        """The GCS address."""

    @property
    def driver_env(self) -> dict[str, str]:
        """The cluster's variables in a driver's environment."""

    def prepare(self, plan: Plan, directory: RunDirectory, token: str) -> Terms | None:
        """Prepare a plan's run; return the terms of a cluster that chaos did not start.

        Raises `ClusterError` if the plan cannot be executed there, or must not.
        """

    def heal(self, lost: set[str]) -> None:
        """Restore the cluster's shape after a run, if chaos has started it."""

    def grow(self, count: int) -> dict[str, Any]:
        """Add nodes during a run; return their agents, by node."""

    def end_gcs(self) -> int:
        """Kill the GCS during a run; return its pid."""

    def start_gcs(self) -> int:
        """Start the GCS again with its stored data; return the new pid once it answers."""

    def deaths(self) -> list[Death]:
        """Return the cluster's processes that have ended, if they are children of this one."""

    def close(self) -> None:
        """End a cluster that chaos has started; disconnect from another."""


def cluster_of(shape: Shape, permissions: Permissions) -> RayCluster:
    """Return the cluster that a shape names, or a local one of that shape.

    First removes the folders of clusters whose harness was killed.
    """
    leavings.sweep()
    if shape.address is not None:
        return ExistingCluster.connect(shape, permissions)
    return LocalCluster.start(shape)


def needs_fresh_nodes(plan: Plan, cluster: RayCluster) -> bool:
    """Return whether an elastic job might begin with fewer workers than there is room for.

    Ray 2.60's autoscaling coordinator sees a node some seconds after it has joined;
    an elastic job begins without it, and grows afterwards.
    """
    return cluster.is_mended and plan.job.min_workers is not None
