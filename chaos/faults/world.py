"""What a fault can do to the world, and how it says what really happened."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

Status: TypeAlias = Literal["ok", "fail", "info"]


@dataclass(frozen=True)
class Victim:
    """Who is struck, resolved at the moment the gate was reached."""

    attempt: int
    rank: int
    pid: int
    node_id: str


@dataclass(frozen=True)
class Outcome:
    """What a strike came to.

    `ok`: the effect was seen. `fail`: it surely did not happen. `info`: it
    cannot be told, which can never make a verdict green.
    """

    status: Status
    detail: str


# Lets go of the held worker; a fault that announced a deadline passes it (monotonic ns).
Release: TypeAlias = Callable[[int | None], None]


class World(Protocol):
    """The means of doing harm. A backend provides them; faults choose among them.

    Every method may raise `ProcessLookupError` where its target is already
    gone: harm to the dead is not harm done.
    """

    def signal_worker(self, victim: Victim, signal_name: str) -> None:
        """Send a signal (`KILL`, `TERM`) to the victim's process."""

    def end_worker_actor(self, victim: Victim) -> None:
        """End the victim's actor through the framework, as an operator would."""

    def worker_is_gone(self, victim: Victim, *, within_s: float) -> bool:
        """Wait until the victim's process has ended, and say whether it has."""

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        """Announce the loss of a node; gives the deadline (monotonic ns)."""

    def wait_until(self, deadline_ns: int) -> bool:
        """Let time pass until a deadline (monotonic ns); False where the run ended before it."""

    def wait(self, seconds: float) -> bool:
        """Let time pass; False where the run ended before it."""

    def worker_of(self, rank: int) -> Victim:
        """Give who holds a rank now."""

    def lose_node(self, node_id: str, *, raylet_only: bool = False) -> None:
        """End a node at once: its raylet and, but for `raylet_only`, all that it started."""

    def freeze_node(self, node_id: str) -> tuple[int, ...]:
        """Stop a node's raylet and all below it; gives the pids."""

    def are_stopped(self, pids: tuple[int, ...], *, within_s: float) -> bool:
        """Wait until processes stand still, and say whether all do."""

    def thaw(self, pids: tuple[int, ...]) -> None:
        """Let stopped processes go on; those that have ended are left out."""

    def idle_nodes(self) -> list[str]:
        """Give the nodes that are alive, hold no worker and were not announced to go."""

    def add_nodes(self, count: int, *, within_s: float) -> list[str]:
        """Add nodes to the cluster; gives those that it counts as alive in time."""

    def end_driver(self) -> int:
        """Kill the process that runs the user's script, and wait for its end; gives its pid."""

    def end_controller(self) -> int:
        """Kill Ray Train's controller, and wait for its end; gives its pid."""

    def node_is_dead(self, node_id: str, *, within_s: float) -> bool:
        """Wait until the cluster itself counts the node as dead, and say whether it does."""
