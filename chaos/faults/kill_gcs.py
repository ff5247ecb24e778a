"""Ray's control service dies, and is started again with its stored state."""

from typing import ClassVar

from pydantic import Field

from chaos.faults.base import Fault, SharedCluster
from chaos.faults.world import Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 30.0


class KillGcs(Fault):
    """End the head's GCS server, and start another on the same port and storage.

    A plan with this fault has a cluster of its own, whose GCS keeps its state in RocksDB (Ray 2.60;
    `RAY_gcs_storage`). Training goes on while it is down. Landed when its process is gone and the
    new one answers. The embedded backend has none to end.
    """

    family = "control"
    ends_attempt = "perhaps"
    on_shared_cluster = SharedCluster("never", "it ends the GCS of the head, which is spared")
    sentence = "the cluster's GCS was killed {place} and started again"
    target_text = "the cluster's GCS"
    releases_worker_itself = True
    needs_durable_gcs = True

    down_s: float = Field(default=3.0, ge=0, le=50, description="seconds until the next one starts")
    rank: ClassVar[None] = None

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """End it while a worker is held, let training go on, and start the next one in time."""
        del target
        ended = world.end_gcs()
        release(None)
        world.wait_seconds(self.down_s)  # if the run ends meanwhile, it is started at once
        started = world.start_gcs(within_s=PROOF_WITHIN_S)
        if started is None:
            return Outcome("info", f"GCS {ended} was killed, and none answers in its place")
        return Outcome("ok", f"GCS {ended} is gone, and GCS {started} answers in its place")

    def __str__(self) -> str:
        return f"kill_gcs (down for {self.down_s:g} s)"
