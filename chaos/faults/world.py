"""What a fault can do to the world, and how it says what really happened."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

Status: TypeAlias = Literal["ok", "fail", "info"]


@dataclass(frozen=True)
class Victim:
    """Who is struck, resolved at the moment the gate was reached; `op` is the op that strikes."""

    attempt: int
    rank: int
    pid: int
    node_id: str
    op: int = -1


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

    def lose_node(self, node_id: str) -> None:
        """End a node at once: its raylet and everything that the raylet started."""

    def node_is_dead(self, node_id: str, *, within_s: float) -> bool:
        """Wait until the cluster itself counts the node as dead, and say whether it does."""

    def arm_storage(self, victim: Victim) -> None:
        """Let the storage fault of the victim's op take effect when its rank next gives cause."""

    def await_storage(self, victim: Victim) -> str | None:
        """Wait until storage itself says what the op's fault did; None: the run ended before."""
