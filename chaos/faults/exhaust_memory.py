"""A worker takes more memory than there is, and is ended for it."""

from typing import ClassVar, Literal

from pydantic import Field

from chaos.faults.base import Fault, SharedCluster
from chaos.faults.order import Exhaust
from chaos.faults.world import LauncherFeature, Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 60.0


class ExhaustMemory(Fault):
    """Order the worker to take so much memory, and end it with SIGKILL once it holds it.

    The memory is really taken, and the lack of it emulated: refused where less than twice as much
    is free. `by: kernel` ends it as the kernel's out-of-memory killer does. `by: raylet` makes its
    death read as one by Ray's memory monitor, `OutOfMemoryError`; on the embedded backend alone,
    because a cluster's monitors look at the whole machine. Landed when the worker has reported that
    it holds all of it, and its pid is gone.
    """

    family = "worker"
    ends_attempt = "always"
    on_shared_cluster = SharedCluster("never", "the memory of the node is that of others as well")
    sentence = "rank {rank} took all memory {place} and was killed"
    is_ordered = True

    bytes: int = Field(default=2**30, gt=0, le=2**36, description="what the worker takes")
    by: Literal["kernel", "raylet"] = "kernel"
    rank: ClassVar[None] = None

    @property
    def needs(self) -> LauncherFeature | None:  # type: ignore[override] # it depends on a setting
        """The cluster, if it is ended as by a memory monitor of Ray's."""
        return None if self.by == "kernel" else "cluster"

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        name, free = f"pid {target.pid} of rank {target.rank}", world.free_memory()
        if free < 2 * self.bytes:
            return Outcome(
                "fail", f"{_format_mib(free)} are free, not twice {_format_mib(self.bytes)}"
            )
        if self.by == "raylet":
            world.disguise_as_memory_kill(target)
        order = Exhaust(self.bytes)
        release(order=order)
        if not world.has_obeyed(order, within_s=PROOF_WITHIN_S):
            return Outcome(
                "info", f"{name} was ordered to take {_format_mib(self.bytes)}, and did not"
            )
        world.signal_worker(target, "KILL")
        if not world.await_worker_end(target, within_s=PROOF_WITHIN_S):
            return Outcome("fail", f"{name} still runs after SIGKILL", signal_sent=True)
        return Outcome("ok", f"{name} held {_format_mib(self.bytes)} more, and is gone")

    def __str__(self) -> str:
        ending_text = "" if self.by == "kernel" else ", ended by the raylet"
        return f"exhaust_memory ({_format_mib(self.bytes)}{ending_text})"


def _format_mib(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"
