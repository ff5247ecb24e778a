"""The means by which faults act on a cluster, and the outcomes that they report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from chaos.faults.order import Order

Status: TypeAlias = Literal["ok", "fail", "info"]

# The parts that a launcher may have beside workers; `chaos.model.launcher` states who has which.
#   reports  Workers report to it. It commits what they save, and hands it to the next attempt.
#   cluster  A Ray cluster: a controller, and nodes whose loss is announced.
#   call     The script calls it itself, with settings of its own, which are seen there.
#   driver   The script itself is the driver, and its end is that of the job.
#   budget   It counts failures against a number of restarts, and gives up beyond it.
#   queue    Jobs wait in it for nodes; one may be preempted, requeued, suspended or held there.
LauncherFeature: TypeAlias = Literal["reports", "cluster", "call", "driver", "budget", "queue"]
#: Who has a part, where it is one launcher alone; the others are Ray Train's.
WHO_HAS: dict[LauncherFeature, str] = {"queue": "Slurm"}


class RefusedError(Exception):
    """A harm that the backend refuses for a target: nothing was done; the text has the reason."""


@dataclass(frozen=True)
class Target:
    """The target of op `op`, resolved at the moment the gate was reached."""

    attempt: int
    rank: int
    pid: int
    node_id: str
    op: int = -1


@dataclass(frozen=True)
class Outcome:
    """The outcome of an injection.

    `ok`: the effect was seen. `fail`: it surely did not happen. `info`: it is not known, which can
    never make a verdict green.
    """

    status: Status
    detail: str
    #: with `fail`: the process has got the signal, and may end of it later
    signal_sent: bool = False
    #: what a node had written and not synced, and lost
    emptied_files: tuple[str, ...] = ()


class WorkerRelease(Protocol):
    """The release of the held worker, once; without a call, it follows the injection."""

    def __call__(self, deadline_ns: int | None = None, *, order: Order | None = None) -> None:
        """Open the gate.

        A fault with a notice passes its deadline (monotonic ns), afterwards where it comes later;
        one that the worker is to do to itself passes the order.
        """


@runtime_checkable
class HealableFault(Protocol):
    """A fault that is undone some time after it has landed, at the end of the run at the latest."""

    def heal(self, world: "World", target: Target) -> str:
        """Wait until it is time, undo the harm, and return in words how that went."""


class World(Protocol):
    """The means of doing harm. A backend provides them; faults choose among them.

    Every method may raise `ProcessLookupError` where its target is already gone, because harm to a
    dead process is no harm; and `RefusedError` where the harm cannot, or must not, be done there.
    """

    def signal_worker(self, target: Target, signal_name: str) -> None:
        """Send a signal (`KILL`, `TERM`, `STOP`, `CONT`) to the target's process."""

    def end_worker_actor(self, target: Target) -> None:
        """End the target's actor through the framework, as an operator would."""

    def free_memory(self) -> int:
        """Return the number of free bytes of memory, of the machine or of its container."""

    def disguise_as_memory_kill(self, target: Target) -> None:
        """Record the target's coming end as one by Ray's memory monitor."""

    def await_worker_end(self, target: Target, *, within_s: float) -> bool:
        """Wait until the target's process has ended; return whether it has."""

    def list_descendants(self, target: Target, *, name: str | None = None) -> list[int]:
        """Return the pids of the living processes below the target's, oldest first."""

    def await_worker_stop(self, target: Target, *, within_s: float) -> bool:
        """Wait until the target's process is stopped by a signal; return whether it is."""

    def list_targets(self) -> Mapping[int, Target]:
        """Return the process that holds each rank now."""

    def wait_for_failure(self, target: Target, *, within_s: float) -> Mapping[int, str] | None:
        """Wait until Ray has recorded that the target's attempt failed; return the errors."""

    def has_obeyed(self, order: Order, *, within_s: float) -> bool:
        """Wait until a worker reports that it carries out an order; return whether it does."""

    def wait_seconds(self, seconds: float) -> bool:
        """Let time pass; return False where the run ended before it was over."""

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        """Announce the loss of a node; return the deadline (monotonic ns)."""

    def post_notice(self, node_id: str, *, deadline_ns: int) -> None:
        """Announce it by the platform's metadata service, too, where the run has one."""

    def wait_for_deadline(self, deadline_ns: int) -> bool:
        """Let time pass until a deadline (monotonic ns); return False if the run ended before."""

    def lose_node(
        self, node_id: str, *, raylet_only: bool = False, unsynced: bool = False
    ) -> Sequence[str]:
        """End a node at once: its raylet and, but for `raylet_only`, all that it started.

        Returns the files that are empty then: with `unsynced`, those on disks that outlive the
        node which its processes had written and not synced.
        """

    def reclaim_node(self, node_id: str, *, notice_s: float, release: WorkerRelease) -> bool | None:
        """Announce the loss of a node and take it, by its platform; return whether it is gone.

        None, and nothing done, where the run has no platform; False where the run ended before.
        `release` is called with the deadline that the cluster itself has announced, if any.
        """

    def describe_taker(self, node_id: str) -> str | None:
        """Return in words which platform took a node, and by which adaptor; None if none did."""

    def terminate_node(self, node_id: str, *, drains_s: float) -> int:
        """Send SIGTERM to the first process of a node; return when it was sent (monotonic ns).

        With `drains_s`, waits until the node's loss is announced to the cluster.
        """

    def end_node(self, node_id: str) -> None:
        """End the first process of a terminated node, and all below it, by SIGKILL."""

    def freeze_node(self, node_id: str, *, within_s: float) -> int | None:
        """Stop a node's raylet and all below it; return the number of stopped processes.

        None where some of them were still running after `within_s`.
        """

    def thaw_node(self, node_id: str) -> None:
        """Let a frozen node's processes go on; those that have ended are left out."""

    def cut_off_node(self, node_id: str, *, for_s: float) -> None:
        """Take a node's network down; it comes back by itself after `for_s`."""

    def await_node_silence(self, node_id: str, *, within_s: float) -> bool:
        """Wait until a node's address does not answer; return whether that is so."""

    def await_node_return(self, node_id: str, *, within_s: float) -> bool:
        """Wait until a node's address answers again; return whether it does."""

    def list_worker_nodes(self) -> list[str]:
        """Return every node of the run that could hold workers, lost ones too, oldest first."""

    def idle_nodes(self) -> list[str]:
        """Return the nodes that are alive, hold no worker and were not announced to go."""

    def add_nodes(self, count: int, *, within_s: float) -> list[str]:
        """Add nodes to the cluster; return those that it counts as alive in time."""

    def end_driver(self) -> int:
        """Kill the process that runs the user's script, and wait for its end; return its pid."""

    def workers_outlive_driver(self) -> bool:
        """Return whether workers may go on without the process that runs the user's script."""

    def start_driver(self, *, within_s: float) -> int | None:
        """Start the user's script once more; return the new driver's pid, None if it came late."""

    def wait_for_driver(self, pid: int, *, attempt: int, within_s: float) -> str | None:
        """Wait until a driver has ended, or an attempt after `attempt` has made a step.

        Returns which of them, in words; None if neither came in time.
        """

    def freeze_driver(self, *, within_s: float) -> int | None:
        """Stop the driver, Ray's controller and every worker; return the number of processes.

        None where some of them were still running after `within_s`.
        """

    def thaw_driver(self) -> None:
        """Continue a frozen driver and its processes; those that have ended are left out."""

    def queue(self) -> Any:  # noqa: ANN401 - the launcher's own faults know its type
        """Return the queue that the run's job waits in for nodes."""

    def end_controller(self) -> int:
        """Kill Ray Train's controller, and wait for its end; return its pid."""

    def end_gcs(self) -> int:
        """Kill the cluster's control service, and wait for its end; return its pid."""

    def start_gcs(self, *, within_s: float) -> int | None:
        """Start it again with its stored state; return its pid once it answers, None if late."""

    def await_node_death(self, node_id: str, *, within_s: float) -> bool:
        """Wait until the cluster itself counts the node as dead; return whether it does."""

    def arm_storage(self, target: Target) -> None:
        """Arm the op's storage fault: for its rank's next upload, or Ray's next snapshot."""

    def await_storage(self, target: Target) -> str | None:
        """Wait until storage reports the effect of the op's fault; None: the run ended before."""
