"""A process tree of this machine as a node: SIGTERM announces its end, SIGKILL is its end."""

import contextlib
import signal
from ipaddress import ip_address
from typing import ClassVar

import psutil

from chaos.errors import UsageError
from chaos.reclaim.port import Seen, the_one

POLL_S = 0.1


class LocalProcesses:
    """Nodes that are process trees, each named by the pid of its first process.

    A process that leaves its tree before it was first looked at is not known to belong to it.
    """

    name: ClassVar[str] = "local"
    seen: ClassVar[Seen] = "for real"
    takes_announced: ClassVar[bool] = False

    def __init__(self) -> None:
        self._known: dict[str, dict[int, psutil.Process]] = {}

    def at(self, host: str, port: int, hostname: str) -> str:
        """Return the first process of the one tree of this machine that listens at an address.

        That is the process which listens; of a Ray node the `ray start --block` above its raylet.
        """
        del hostname
        here = {a.address for of in psutil.net_if_addrs().values() for a in of}
        is_here = host in here or host.startswith("127.")
        found = set[str]()
        for held in psutil.net_connections("tcp"):
            if held.status != psutil.CONN_LISTEN or not held.pid or not held.laddr:
                continue
            # A server that listens at any address is at each of this machine's, and an IPv6 socket
            # shows an IPv4 address in its mapped form.
            ip, its_port = held.laddr
            is_any = is_here and ip_address(ip).is_unspecified
            if its_port == port and (is_any or ip.removeprefix("::ffff:") == host):
                found.add(_first(held.pid))
        return the_one(sorted(found), f"{host}:{port}", self)

    def announce(self, node: str, *, notice_s: float) -> float:
        """Send SIGTERM to the first process, as a machine's shutdown does; return the notice."""
        self._there(node)[0].send_signal(signal.SIGTERM)
        return notice_s

    def take(self, node: str) -> None:
        """Kill every process of the tree, the first one first, until no new one comes."""
        alive = self._there(node)
        while alive:
            for process in alive:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(alive, timeout=POLL_S)  # a zombie of another parent's never goes
            alive = self._look(node)

    def is_gone(self, node: str) -> bool:
        return not self._look(node)

    def _there(self, node: str) -> list[psutil.Process]:
        alive = self._look(node)
        if not alive:
            raise ProcessLookupError(f"nothing of the tree of pid {node} runs")
        return alive

    def _look(self, node: str) -> list[psutil.Process]:
        """Return the living processes of a tree, the first one first; remember them.

        Children of a process that has ended since have another parent now: they are found below
        those that are remembered, which psutil knows from others with the same pid by their start.
        """
        if not node.isascii() or not node.isdigit():
            raise UsageError(f"a node of this machine is named by a pid, got {node!r}")
        if node not in self._known:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._known[node] = {int(node): psutil.Process(int(node))}
        known = self._known.get(node, {})
        for process in list(known.values()):
            with contextlib.suppress(psutil.NoSuchProcess):
                known |= {p.pid: p for p in process.children(recursive=True) if p.pid not in known}
        return [process for process in known.values() if _runs(process)]


def _first(pid: int) -> str:
    above = psutil.Process(pid).parent()
    is_first = above is not None and "--block" in above.cmdline()
    return str(above.pid if above is not None and is_first else pid)


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
