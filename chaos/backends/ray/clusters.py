"""What a run needs of the cluster that it runs on, whoever started it."""

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
    """`agents` are the hands that are there before a run, by node."""

    shape: Shape
    agents: dict[str, Any]
    is_mended: bool  # nodes of it were replaced between two runs
    dashboard: str | None  # the address of Ray's dashboard, where there is one

    @property
    def is_ours(self) -> bool:
        """Whether chaos has started the cluster, and ends it."""

    @property
    def address(self) -> str:
        """The GCS address."""

    @property
    def driver_env(self) -> dict[str, str]:
        """What a driver's environment has of the cluster."""

    def prepare(self, plan: Plan, directory: RunDirectory, token: str) -> Terms | None:
        """See that a plan can be carried out; gives the terms of a cluster that is not ours.

        Raises `ClusterError` where it cannot, or must not.
        """

    def heal(self, lost: set[str]) -> None:
        """Bring the cluster back to its shape after a run, where it is ours."""

    def grow(self, count: int) -> dict[str, Any]:
        """Add nodes in the course of a run; gives their agents, by node."""

    def end_gcs(self) -> int:
        """Kill the GCS in the course of a run; gives its pid."""

    def start_gcs(self) -> int:
        """Start the GCS again with what it had stored; gives the new pid once it answers."""

    def deaths(self) -> list[Death]:
        """Return what has ended of the cluster, where its processes are our children."""

    def close(self) -> None:
        """End what chaos has started, or disconnect."""


def cluster_of(shape: Shape, permissions: Permissions) -> RayCluster:
    """Return the cluster that a shape names, or a local one of that shape.

    What clusters have left behind whose harness was killed is removed first.
    """
    leavings.sweep()
    if shape.address is not None:
        return ExistingCluster.connect(shape, permissions)
    return LocalCluster.start(shape)


def needs_fresh_nodes(plan: Plan, cluster: RayCluster) -> bool:
    """Return whether an elastic job might begin with fewer workers than there is room for.

    Ray 2.60's autoscaling coordinator learns of a node some seconds after it
    has joined; until then an elastic job does without, and grows when it has.
    """
    return cluster.is_mended and plan.job.min_workers is not None
