"""The one module of the extension that the core loads; Ray and clients are imported by need."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.extensions.cluster.metadata.service import CloudMetadata
from chaos.extensions.cluster.reclaim.connect import build_reclaimer, describe_machines
from chaos.faults.world import Target
from chaos.launch.cluster_extension import ClusterExtension
from chaos.model.plan import Shape
from chaos.model.scenario import Cloud
from chaos.plan.permissions import NodeFacts, Permissions
from chaos.run.clock import SystemClock
from chaos.run.journal import Journal
from chaos.run.ports import Backend, Say

if TYPE_CHECKING:
    from chaos.extensions.cluster.existing.cluster import ExistingCluster


class ClusterEntry(ClusterExtension):
    """The extension, as it is installed."""

    def find_nodes(self, address: str) -> list[NodeFacts]:
        from chaos.extensions.cluster.existing.cluster import connect
        from chaos.extensions.cluster.existing.nodes import list_nodes

        connection = connect(address)
        try:
            return list_nodes()
        finally:
            connection.close()

    def join_cluster(
        self, shape: Shape, permissions: Permissions, report: Say
    ) -> "ExistingCluster":
        from chaos.extensions.cluster.existing.cluster import ExistingCluster

        return ExistingCluster(shape, permissions, report)

    def open_lanes(
        self, address: str, *, workers: int, lanes_max: int, check: Callable[[Backend], None]
    ) -> AbstractContextManager[list[Backend]]:
        from chaos.extensions.cluster.existing.lanes import open_remote_lanes

        return open_remote_lanes(address, workers=workers, lanes_max=lanes_max, check=check)

    def check_platform(self, reclaim_by: str) -> None:
        build_reclaimer(reclaim_by)

    def find_machines(self, reclaim_by: str, nodes: Sequence[NodeFacts]) -> dict[str, str]:
        return describe_machines(build_reclaimer(reclaim_by), nodes)

    def open_metadata(
        self,
        cloud: Cloud,
        group: Callable[[], Mapping[int, Target]],
        log: Path,
        journal: Journal,
    ) -> CloudMetadata:
        return CloudMetadata(cloud, SystemClock(), group, log, journal)
