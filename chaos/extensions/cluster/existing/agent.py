"""The agents of a run on an existing cluster, one per node, and the run's pool of them.

An agent is leased, so that it undoes its faults by itself. It is detached, so that the end
of the harness's Ray job does not end it before it has undone them. When its lease is not
renewed, it continues the processes that it stopped, removes the run's files from its host,
and ends.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import ray

from chaos.declaration import TOKEN_ENV
from chaos.extensions.cluster.existing.file_pieces import (
    FilePiece,
    FilePositions,
    HostCopies,
    collect_pieces,
)
from chaos.extensions.cluster.existing.terms import LEASE_S, ClusterFacts, Lease
from chaos.faults.world import RefusedError
from chaos.launch.ray.agent import NodeOperations, find_run_processes
from chaos.launch.ray.settings import NAMESPACE
from chaos.model.event import JournalCut, Leftover
from chaos.processes.tree import is_running, kill
from chaos.run import held_folders
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.remote_files import build_remote_path
from chaos.run.signals import find_signal

POLL_S = 0.2
END_WITHIN_S = 10.0


@ray.remote(num_cpus=0, max_concurrency=16, max_restarts=0)
class LeasedAgent(NodeOperations):
    """The agent of a node that holds workers of the job, for one run."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token
        self._folder = build_remote_path(token, ray.get_runtime_context().get_node_id())
        self._lease = Lease(LEASE_S, SystemClock())
        self._stopped: list[int] = []
        self._run_processes: set[psutil.Process] = set()
        held_folders.sweep()  # of earlier runs, whose agents were killed with their node
        threading.Thread(target=self._await_lapse, daemon=True).start()

    # -- the lease ---------------------------------------------------------------------------

    def renew(self) -> None:
        """Renew the lease; remember the processes of the run on this node."""
        self._lease.renew()
        self._run_processes.update(
            p for p in self._list_other_processes() if _find_token(p) == self._token
        )

    def retire(self) -> None:
        """Continue stopped processes, and remove the run's files from this host."""
        self.thaw_node()
        held_folders.remove(self._folder)

    # -- faults ----------------------------------------------------------------------------------

    def send_signal(self, pid: int, signal_name: str) -> None:
        """Send a signal to a process of the run on this node; remember those that it stops."""
        # Twice: it must be below this node's raylet, and carry the run's token. On a cluster of
        # others a pid that was used again could be anybody's.
        process = self._find_process(pid)
        try:
            token = process.environ().get(TOKEN_ENV)
        except psutil.NoSuchProcess as error:
            raise ProcessLookupError(f"pid {pid}") from error
        if token != self._token:
            raise RefusedError(f"pid {pid} is no process of this run")
        # Remembered before it is stopped: an agent that ends in between lets one process too many
        # go on, and not one too few.
        if signal_name == "STOP":
            self._stopped.append(pid)
        process.send_signal(find_signal(signal_name))
        if signal_name == "CONT" and pid in self._stopped:
            self._stopped.remove(pid)

    def freeze_node(self) -> tuple[int, ...]:
        """Stop this node's raylet and all below it but this agent; return the pids."""
        self._stopped.append(self._raylet.pid)
        self._raylet.suspend()  # first, so that it starts nothing meanwhile
        frozen = [self._raylet.pid]
        for process in self._list_other_processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                self._stopped.append(process.pid)
                process.suspend()
                frozen.append(process.pid)
        return tuple(frozen)

    def thaw_node(self) -> None:
        """Continue all processes that this agent has stopped, the raylet last."""
        while self._stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(self._stopped.pop()).resume()

    def end_workers(self) -> tuple[int, ...]:
        """Stop the raylet, end all below it but this agent; return the pids that are gone.

        After `end_node`, which must follow, no process could report them.
        """
        self._raylet.suspend()
        self._stopped.append(self._raylet.pid)
        processes = self._list_other_processes()
        for process in processes:
            kill(process)
        self._await_condition(lambda: not any(is_running(p.pid) for p in processes), END_WITHIN_S)
        return tuple(p.pid for p in processes if not is_running(p.pid))

    def end_node(self) -> None:
        """End the raylet, and this agent. Does not return."""
        held_folders.remove(self._folder)
        self._raylet.kill()
        os.kill(os.getpid(), signal.SIGKILL)

    def cut_off(self, address: str, for_s: float) -> str:
        """Take the network interface of an address down, for so long; return its name.

        A process of its own does so and puts it up again, even if this agent ends.
        Raises `RefusedError` if that cannot be done here.
        """
        interface = self._find_interface(address)
        self._lease.extend(for_s)  # without a network it cannot be renewed meanwhile
        module = "chaos.extensions.cluster.existing.link"
        subprocess.run([sys.executable, "-m", module, interface, str(for_s)], check=True)
        return interface

    # -- what was written here -----------------------------------------------------------------

    def clock(self) -> tuple[int, str]:
        """Return this host's monotonic time, and the id of the boot that it counts from."""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return self._clock.now_ns(), boot.strip()

    def new_pieces(self, positions: FilePositions) -> list[FilePiece]:
        """Return the parts of files that the run's processes on this host have written since."""
        held_folders.hold(self._folder)
        return collect_pieces(self._folder, positions)

    def end_leftovers(self, within_s: float) -> list[str]:
        """Wait for the run's processes on this host to end; end and return those that do not."""
        self._await_condition(lambda: not find_run_processes(self._token), within_s)
        remaining = find_run_processes(self._token)
        for pid, _ in remaining:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
        return [f"pid {pid}: {command}" for pid, command in remaining]

    # -- inside ----------------------------------------------------------------------------------

    def _await_lapse(self) -> None:
        # No process heals a cluster of others after a harness that was killed or cut off. So an
        # agent lives on a lease, and what it does at its end needs no word from outside.
        while not self._lease.has_lapsed:
            self._clock.sleep(POLL_S)
        self.retire()
        if not is_running(self._raylet.pid):  # a raylet that runs ends its workers itself
            for process in filter(psutil.Process.is_running, self._run_processes):
                kill(process)
        os.kill(os.getpid(), signal.SIGKILL)

    def _list_other_processes(self) -> list[psutil.Process]:
        """Return all processes below the raylet but this one and its own children."""
        excluded_pids = {
            os.getpid(),
            *(process.pid for process in psutil.Process().children(recursive=True)),
        }
        return [
            process
            for process in self._raylet.children(recursive=True)
            if process.pid not in excluded_pids
        ]

    def _find_interface(self, address: str) -> str:
        if os.geteuid() != 0:
            raise RefusedError("the node's agent does not run as root")
        if shutil.which("ip") is None:
            raise RefusedError("the node has no `ip` (iproute2)")
        interfaces = [
            name
            for name, addresses in psutil.net_if_addrs().items()
            if any(a.address == address for a in addresses)
        ]
        if not interfaces or address.startswith("127."):
            raise RefusedError(f"no interface of the node has its address {address}")
        return interfaces[0]


def _find_token(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(TOKEN_ENV)
    except psutil.Error:
        return None


def start_agent(node_id: str, token: str) -> Any:  # an actor handle
    """Start an agent on a node; return its handle without waiting for it."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return LeasedAgent.options(  # type: ignore[attr-defined]
        name=f"chaos-agent-{token}-{node_id}",
        lifetime="detached",
        namespace=NAMESPACE,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
    ).remote(token)


COLLECT_S = 0.3
ANSWER_S = 10.0
LEFTOVERS_S = 10.0
PINGS = 7


class AgentPool:
    """The agents of one run, in the chaos controller's process; any thread may call it."""

    def __init__(self, directory: RunDirectory, terms: ClusterFacts) -> None:
        self.agents: dict[str, Any] = {}
        self._directory = directory
        self._terms = terms
        self._clock = SystemClock()
        self._copies: dict[str, HostCopies] = {}
        self._complete_nodes: set[str] = set()
        self._pids: dict[str, set[int]] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._is_over = threading.Event()
        threading.Thread(target=self._collect_periodically, name="collect", daemon=True).start()

    def ensure_agents(self, workers: Iterable[tuple[str, int]]) -> None:
        """Start an agent on every node that holds a worker; workers are (node, pid)."""
        for node_id, pid in workers:
            self._pids.setdefault(node_id, set()).add(pid)
            if node_id not in self.agents:
                self.agents[node_id] = start_agent(node_id, self._terms.token)

    def renew(self) -> None:
        for agent in list(self.agents.values()):
            agent.renew.remote()

    def collect(self, node_id: str) -> bool:
        """Fetch the run's files from a node; return whether all of them have come."""
        # One at a time for a node: the thread that collects, a fault that fetches what its target
        # has written, and the end of the run would fetch the same pieces.
        with self._locks[node_id]:
            try:
                copies = self._get_copies(node_id)
                while pieces := self._ask(node_id, "new_pieces", copies.positions):
                    copies.add_pieces(pieces)
            except ray.exceptions.RayError:
                return False
        return True

    def mark_complete(self, node_id: str) -> None:
        self._complete_nodes.add(node_id)

    def retire(self) -> tuple[list[Leftover], list[JournalCut]]:
        """End all agents; return the run's leftovers on their hosts, and the journals cut short."""
        self._is_over.set()
        with ThreadPoolExecutor(max_workers=32) as pool:
            results = list(pool.map(self._retire, list(self.agents)))
        descriptions = dict.fromkeys(
            description for names, _ in results for description in names
        )  # two may share a host
        leftovers = [Leftover(kind="process", name=description) for description in descriptions]
        return leftovers, [cut for _, cuts in results for cut in cuts]

    # -- inside ------------------------------------------------------------------------------

    def _retire(self, node_id: str) -> tuple[list[str], list[JournalCut]]:
        # In this order: no process writes any more, then the rest of the files is fetched, then
        # they are removed there. Each step is taken even if the node does not answer to the one
        # before.
        remaining: list[str] = []
        with contextlib.suppress(ray.exceptions.RayError):
            remaining = self._ask(node_id, "end_leftovers", LEFTOVERS_S, more_s=LEFTOVERS_S)
        is_complete = self.collect(node_id) or node_id in self._complete_nodes
        with contextlib.suppress(ray.exceptions.RayError):
            self._ask(node_id, "retire")
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(self.agents[node_id])
        return remaining, [] if is_complete else self._find_cuts(node_id)

    def _collect_periodically(self) -> None:
        while not self._is_over.wait(COLLECT_S):
            for node_id in list(self.agents):
                if node_id in self._terms.unshared_nodes and node_id not in self._complete_nodes:
                    self.collect(node_id)

    def _get_copies(self, node_id: str) -> HostCopies:
        if node_id not in self._copies:
            offset_ns = self._clock_offset(node_id)
            self._copies[node_id] = HostCopies(
                self._directory, node_id[:8], clock_offset_ns=offset_ns
            )
        return self._copies[node_id]

    def _clock_offset(self, node_id: str) -> int:
        """Return the difference from a node's monotonic time to this one's, by the quickest call.

        The error is at most half of that call's time, and no message takes less. So a cause
        stays before its effect on another host.
        """
        own_boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        samples = []
        for _ in range(PINGS):
            sent_ns = self._clock.now_ns()
            theirs_ns, boot = self._ask(node_id, "clock")
            came_ns = self._clock.now_ns()
            if boot == own_boot:
                return 0
            samples.append((came_ns - sent_ns, (sent_ns + came_ns) // 2 - theirs_ns))
        offset_ns: int = min(samples)[1]
        return offset_ns

    def _find_cuts(self, node_id: str) -> list[JournalCut]:
        """Return the journals that may lack their end; none if the node saw the run's files."""
        if node_id not in self._terms.unshared_nodes:
            return []
        name = node_id[:8]
        copied = self._copies[node_id].journal_names if node_id in self._copies else frozenset()
        workers = {f"worker-{pid}-{name}" for pid in self._pids[node_id]}
        return [JournalCut(source=source, node_id=node_id) for source in sorted(copied | workers)]

    def _ask(
        self, node_id: str, method: str, *words: Any, more_s: float = 0.0
    ) -> Any:  # whatever the agent gives
        answer = getattr(self.agents[node_id], method).remote(*words)
        return ray.get(answer, timeout=ANSWER_S + more_s)
