"""The queue that jobs wait in for nodes, and what is the same for all faults of it."""

from typing import ClassVar, Protocol

from chaos.faults.base import Fault, SharedCluster
from chaos.faults.world import World


class JobQueue(Protocol):
    """A queue that jobs wait in for nodes, as its operator sees it."""

    def requeue(self, *, is_held: bool) -> None:
        """End the job and put it back into the queue; where it is held, until `release`."""

    def release(self) -> None:
        """Release a held job, which waits for nodes again."""

    def fail_prolog(self) -> None:
        """Make the next prolog fail, once."""

    def wait_for_drain(self, *, within_s: float) -> str | None:
        """Return the node that is drained as its prolog failed, with the job held; None if late."""

    def repair(self, node: str) -> None:
        """Return a drained node to the queue."""

    def suspend(self) -> None:
        """Stop all processes of the job, which keeps its nodes."""

    def resume(self) -> None:
        """Resume a suspended job."""

    def signal(self, name: str, *, to_batch: bool, within_s: float) -> bool:
        """Send a signal to the job's steps, or to its batch shell alone; return whether it went."""

    def reach_time_limit(self, *, within_s: float) -> bool:
        """Shorten the job's time limit, and wait until the job is ended for it; return if it is."""

    def stop_daemon(self) -> int:
        """End the daemon that holds the queue, and wait for its end; return its pid."""

    def start_daemon(self, *, within_s: float) -> int | None:
        """Start it again with its saved state; return its pid once it answers, None if late."""


class QueueFault(Fault):
    """A fault that is done to the job as a whole, through the queue that it waited in."""

    family = "control"
    needs = "queue"
    on_shared_cluster = SharedCluster("never", "only an operator of Slurm may do it")
    target_text = "the job"
    rank: ClassVar[None] = None

    @staticmethod
    def find_queue(world: World) -> JobQueue:
        """Return the queue of the run's job."""
        queue: JobQueue = world.queue()
        return queue
