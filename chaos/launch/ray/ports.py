"""The cluster of a run: a local one, or one that chaos did not start, of another package."""

from contextlib import AbstractContextManager
from typing import Any, Protocol

from chaos.launch.ray.deaths import Death
from chaos.launch.ray.world import RayWorld
from chaos.model.plan import Plan, Shape
from chaos.run.armed_faults import ArmedFaults
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal
from chaos.run.ports import ShowEntries


class RunTerms(Protocol):
    """The terms of a run on a cluster that chaos did not start; they travel to its `ChaosActor`."""

    @property
    def fault_limit_s(self) -> float:
        """The longest time that a fault may take there; 0: no longer than on a local cluster."""

    def open_world(
        self, address: str, directory: RunDirectory, armed: ArmedFaults, journal: Journal
    ) -> RayWorld:
        """Return the world of the run's faults, in the process of the `ChaosActor`."""

    def renew_leases(self, actor: Any) -> AbstractContextManager[None]:  # a handle
        """Renew the leases of the run's agents meanwhile, through a `ChaosActor`."""


class RayCluster(Protocol):
    """A cluster with the shape of a plan, for one connection of this process to it."""

    shape: Shape
    #: by node; empty where each run has agents of its own
    agents: dict[str, Any]
    #: chaos started it, on this host
    is_ours: bool
    #: nodes were replaced after a run
    is_repaired: bool
    #: the address of its dashboard, if it has one
    dashboard: str | None

    @property
    def address(self) -> str:
        """The address of its GCS."""

    @property
    def driver_env(self) -> dict[str, str]:
        """The variables by which a driver finds it."""

    def prepare(self, plan: Plan, directory: RunDirectory, token: str) -> RunTerms | None:
        """Prepare a plan's run; None: there are no terms, as on a local cluster.

        Raises `ClusterError` if it may not or cannot be executed there.
        """

    def show_and_record(self, show: ShowEntries, plan: Plan) -> ShowEntries:
        """Return a function that shows a run's entries, and records what the cluster keeps."""

    def heal(self, lost_nodes: set[str]) -> None:
        """Restore its shape after a run, if chaos may."""

    def find_deaths(self) -> list[Death]:
        """Return its processes that have ended and were not removed by chaos."""

    def close(self) -> None:
        """Leave it, and end what chaos has started of it; a second call does nothing."""
