"""A process tree of this machine as a node: SIGTERM announces its end, SIGKILL is its end."""

import contextlib
import signal
from ipaddress import ip_address
from typing import ClassVar

import psutil

from chaos.errors import UsageError
from chaos.extensions.cluster.reclaim.reclaimer import Seen, require_single_node

POLL_S = 0.1


class LocalProcesses:
    """Nodes that are process trees, each named by the pid of its first process.

    A process that leaves its tree before it was first looked at is not known to belong to it.
    """

    name: ClassVar[str] = "local"
    evidence: ClassVar[Seen] = "for real"
    takes_announced: ClassVar[bool] = False

    def __init__(self) -> None:
        self._known_processes: dict[str, dict[int, psutil.Process]] = {}

    def find_machine(self, host: str, port: int, hostname: str) -> str:
        """Return the first process of the one tree of this machine that listens at an address.

        That is the process which listens; of a Ray node the `ray start --block` above its raylet.
        """
        del hostname
        local_addresses = {
            entry.address for addresses in psutil.net_if_addrs().values() for entry in addresses
        }
        is_local = host in local_addresses or host.startswith("127.")
        first_pids = set[str]()
        for connection in psutil.net_connections("tcp"):
            if (
                connection.status != psutil.CONN_LISTEN
                or not connection.pid
                or not connection.laddr
            ):
                continue
            # A server that listens at any address is at each of this machine's, and an IPv6 socket
            # shows an IPv4 address in its mapped form.
            ip, listening_port = connection.laddr
            is_any = is_local and ip_address(ip).is_unspecified
            if listening_port == port and (is_any or ip.removeprefix("::ffff:") == host):
                first_pids.add(_find_first_pid(connection.pid))
        return require_single_node(sorted(first_pids), f"{host}:{port}", self)

    def announce(self, node: str, *, notice_s: float) -> float:
        """Send SIGTERM to the first process, as a machine's shutdown does; return the notice."""
        self._require_alive(node)[0].send_signal(signal.SIGTERM)
        return notice_s

    def take(self, node: str) -> None:
        """Kill every process of the tree, the first one first, until no new one comes."""
        alive = self._require_alive(node)
        while alive:
            for process in alive:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(alive, timeout=POLL_S)  # a zombie of another parent's never goes
            alive = self._find_alive(node)

    def is_gone(self, node: str) -> bool:
        return not self._find_alive(node)

    def _require_alive(self, node: str) -> list[psutil.Process]:
        alive = self._find_alive(node)
        if not alive:
            raise ProcessLookupError(f"nothing of the tree of pid {node} runs")
        return alive

    def _find_alive(self, node: str) -> list[psutil.Process]:
        """Return the living processes of a tree, the first one first; remember them.

        Children of a process that has ended since have another parent now: they are found below
        those that are remembered, which psutil knows from others with the same pid by their start.
        """
        if not node.isascii() or not node.isdigit():
            raise UsageError(f"a node of this machine is named by a pid, got {node!r}")
        if node not in self._known_processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._known_processes[node] = {int(node): psutil.Process(int(node))}
        processes = self._known_processes.get(node, {})
        for process in list(processes.values()):
            with contextlib.suppress(psutil.NoSuchProcess):
                processes |= {
                    child.pid: child
                    for child in process.children(recursive=True)
                    if child.pid not in processes
                }
        return [process for process in processes.values() if _is_alive(process)]


def _find_first_pid(pid: int) -> str:
    parent = psutil.Process(pid).parent()
    is_first = parent is not None and "--block" in parent.cmdline()
    return str(parent.pid if parent is not None and is_first else pid)


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
