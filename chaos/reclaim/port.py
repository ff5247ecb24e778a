"""The port to a platform that takes a machine back: announce it, take it, see that it is gone."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from chaos.errors import UsageError
from chaos.faults.world import RefusedError

Seen: TypeAlias = Literal["for real", "against a fake alone"]
POLL_S = 1.0


class Reclaimer(Protocol):
    """A platform's means of reclaiming a node; the contract is the suite `tests/reclaim`.

    Announcing or taking a node that is not there raises `ProcessLookupError`. What the platform
    will not do raises `RefusedError`, before anything has changed.
    """

    name: ClassVar[str]
    seen: ClassVar[Seen]
    takes_announced: ClassVar[bool]  # a node that was announced goes without `take`

    def announce(self, node: str, *, notice_s: float) -> float:
        """Announce a node's loss; return the notice that it has (seconds), no less than asked."""

    def take(self, node: str) -> None:
        """End a node at once, with as little grace as the platform has."""

    def is_gone(self, node: str) -> bool:
        """Return whether nothing of the node runs any more; a name that never was is gone, too."""


@dataclass(frozen=True)
class Reclaimed:
    """The end of a node as it was seen, and how far to trust the adaptor that reclaimed it."""

    node: str
    reclaimer: str
    seen: Seen
    notice_s: float
    is_gone: bool

    def __str__(self) -> str:
        end = "is gone" if self.is_gone else "is still there"
        return (
            f"{self.node} was announced {self.notice_s:g} s before its loss, and {end} "
            f"({self.reclaimer}: an adaptor that was seen {self.seen})"
        )


def reclaim(
    reclaimer: Reclaimer,
    node: str,
    *,
    notice_s: float,
    within_s: float = 600.0,
    sleep: Callable[[float], None],
) -> Reclaimed:
    """Announce a node's loss, let the notice pass, take the node if need be, and look.

    Waits at most `within_s` after the notice, by `sleep` (such as `time.sleep`). Raises what the
    reclaimer raises.
    """
    given_s = reclaimer.announce(node, notice_s=notice_s)
    if not _goes(reclaimer, node, given_s, sleep) and not reclaimer.takes_announced:
        reclaimer.take(node)
    is_gone = _goes(reclaimer, node, within_s, sleep)
    return Reclaimed(node, reclaimer.name, reclaimer.seen, given_s, is_gone)


def _goes(reclaimer: Reclaimer, node: str, within_s: float, sleep: Callable[[float], None]) -> bool:
    left_s = within_s
    while not reclaimer.is_gone(node):
        if left_s <= 0:
            return False
        sleep(min(POLL_S, left_s))
        left_s -= POLL_S
    return True


def client(module: str, *, extra: str) -> Any:  # noqa: ANN401 - a library without types here
    """Import a platform's own client; raises `UsageError` where it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        hint = f"pip install 'ray-train-chaos[{extra}]'"
        raise UsageError(f"the client {module} is not installed", hint) from error


def refuse(reclaimer: Reclaimer, node: str, *, asked_s: float = 0.0, given_s: float = 0.0) -> None:
    """Raise `ProcessLookupError` for a node that is gone, `RefusedError` for too long a notice."""
    if reclaimer.is_gone(node):
        raise ProcessLookupError(f"{node} does not run on {reclaimer.name}")
    if asked_s > given_s:
        notice = f"{given_s:g} s of notice, {asked_s:g} s were asked"
        raise RefusedError(f"{reclaimer.name} gives {notice}")


def parts(node: str, form: str) -> list[str]:
    """Return the parts of a node's name of a form (`NAMESPACE/POD`); raises `UsageError`."""
    found = node.split("/")
    if len(found) != len(form.split("/")) or not all(found):
        raise UsageError(f"a node of this platform is named {form}, got {node!r}")
    return found
