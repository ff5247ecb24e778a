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

from chaos.declared import TOKEN_ENV
from chaos.faults.world import RefusedError
from chaos.launch.ray.agent import NodeHands, processes_of
from chaos.launch.ray.existing.terms import LEASE_S, ClusterFacts, Lease
from chaos.launch.ray.settings import NAMESPACE
from chaos.model.event import JournalCut, Leftover
from chaos.processes.tree import is_running, kill
from chaos.run import leavings
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.files_elsewhere import Copies, Known, Piece, folder_elsewhere, news
from chaos.run.signals import signal_of

POLL_S = 0.2
END_WITHIN_S = 10.0


@ray.remote(num_cpus=0, max_concurrency=16, max_restarts=0)
class LeasedAgent(NodeHands):
    """The agent of a node that holds workers of the job, for one run."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token
        self._folder = folder_elsewhere(token, ray.get_runtime_context().get_node_id())
        self._lease = Lease(LEASE_S, SystemClock())
        self._stopped: list[int] = []
        self._below: set[psutil.Process] = set()
        leavings.sweep()  # of earlier runs, whose agents were killed with their node
        threading.Thread(target=self._await_lapse, daemon=True).start()

    # -- the lease ---------------------------------------------------------------------------

    def renew(self) -> None:
        """Renew the lease; remember the processes of the run on this node."""
        self._lease.renew()
        self._below.update(p for p in self._others() if _token_of(p) == self._token)

    def retire(self) -> None:
        """Continue stopped processes, and remove the run's files from this host."""
        self.thaw_node()
        leavings.remove(self._folder)

    # -- faults ----------------------------------------------------------------------------------

    def send_signal(self, pid: int, signal_name: str) -> None:
        """Send a signal to a process of the run on this node; remember those that it stops."""
        # Twice: it must be below this node's raylet, and carry the run's token. On a cluster of
        # others a pid that was used again could be anybody's.
        process = self._own(pid)
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
        process.send_signal(signal_of(signal_name))
        if signal_name == "CONT" and pid in self._stopped:
            self._stopped.remove(pid)

    def freeze_node(self) -> tuple[int, ...]:
        """Stop this node's raylet and all below it but this agent; return the pids."""
        self._stopped.append(self._raylet.pid)
        self._raylet.suspend()  # first, so that it starts nothing meanwhile
        frozen = [self._raylet.pid]
        for process in self._others():
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
        ended = self._others()
        for process in ended:
            kill(process)
        self._came(lambda: not any(is_running(p.pid) for p in ended), END_WITHIN_S)
        return tuple(p.pid for p in ended if not is_running(p.pid))

    def end_node(self) -> None:
        """End the raylet, and this agent. Does not return."""
        leavings.remove(self._folder)
        self._raylet.kill()
        os.kill(os.getpid(), signal.SIGKILL)

    def cut_off(self, address: str, for_s: float) -> str:
        """Take the network interface of an address down, for so long; return its name.

        A process of its own does so and puts it up again, even if this agent ends.
        Raises `RefusedError` if that cannot be done here.
        """
        interface = self._interface(address)
        self._lease.extend(for_s)  # without a network it cannot be renewed meanwhile
        module = "chaos.launch.ray.existing.link"
        subprocess.run([sys.executable, "-m", module, interface, str(for_s)], check=True)
        return interface

    # -- what was written here -----------------------------------------------------------------

    def clock(self) -> tuple[int, str]:
        """Return this host's monotonic time, and the id of the boot that it counts from."""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return self._clock.now_ns(), boot.strip()

    def new_pieces(self, known: Known) -> list[Piece]:
        """Return the parts of files that the run's processes on this host have written since."""
        leavings.hold(self._folder)
        return news(self._folder, known)

    def end_leftovers(self, within_s: float) -> list[str]:
        """Wait for the run's processes on this host to end; end and return those that do not."""
        self._came(lambda: not processes_of(self._token), within_s)
        left = processes_of(self._token)
        for pid, _ in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
        return [f"pid {pid}: {command}" for pid, command in left]

    # -- inside ----------------------------------------------------------------------------------

    def _await_lapse(self) -> None:
        # No process heals a cluster of others after a harness that was killed or cut off. So an
        # agent lives on a lease, and what it does at its end needs no word from outside.
        while not self._lease.has_lapsed:
            self._clock.sleep(POLL_S)
        self.retire()
        if not is_running(self._raylet.pid):  # a raylet that runs ends its workers itself
            for process in filter(psutil.Process.is_running, self._below):
                kill(process)
        os.kill(os.getpid(), signal.SIGKILL)

    def _others(self) -> list[psutil.Process]:
        """Return all processes below the raylet but this one and its own children."""
        mine = {os.getpid(), *(p.pid for p in psutil.Process().children(recursive=True))}
        return [p for p in self._raylet.children(recursive=True) if p.pid not in mine]

    def _interface(self, address: str) -> str:
        if os.geteuid() != 0:
            raise RefusedError("the node's agent does not run as root")
        if shutil.which("ip") is None:
            raise RefusedError("the node has no `ip` (iproute2)")
        found = [
            name
            for name, addresses in psutil.net_if_addrs().items()
            if any(a.address == address for a in addresses)
        ]
        if not found or address.startswith("127."):
            raise RefusedError(f"no interface of the node has its address {address}")
        return found[0]


def _token_of(process: psutil.Process) -> str | None:
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
        self._copies: dict[str, Copies] = {}
        self._whole: set[str] = set()
        self._pids: dict[str, set[int]] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._is_over = threading.Event()
        threading.Thread(target=self._collect_on, name="collect", daemon=True).start()

    def attend(self, workers: Iterable[tuple[str, int]]) -> None:
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
                copies = self._copies_of(node_id)
                while pieces := self._ask(node_id, "new_pieces", copies.known):
                    copies.take(pieces)
            except ray.exceptions.RayError:
                return False
        return True

    def is_all_there(self, node_id: str) -> None:
        self._whole.add(node_id)

    def retire(self) -> tuple[list[Leftover], list[JournalCut]]:
        """End all agents; return the run's leftovers on their hosts, and the journals cut short."""
        self._is_over.set()
        with ThreadPoolExecutor(max_workers=32) as pool:
            ended = list(pool.map(self._retire, list(self.agents)))
        left = dict.fromkeys(what for names, _ in ended for what in names)  # two may share a host
        leftovers = [Leftover(kind="process", what=what) for what in left]
        return leftovers, [cut for _, cuts in ended for cut in cuts]

    # -- inside ------------------------------------------------------------------------------

    def _retire(self, node_id: str) -> tuple[list[str], list[JournalCut]]:
        # In this order: no process writes any more, then the rest of the files is fetched, then
        # they are removed there. Each step is taken even if the node does not answer to the one
        # before.
        left: list[str] = []
        with contextlib.suppress(ray.exceptions.RayError):
            left = self._ask(node_id, "end_leftovers", LEFTOVERS_S, more_s=LEFTOVERS_S)
        is_whole = self.collect(node_id) or node_id in self._whole
        with contextlib.suppress(ray.exceptions.RayError):
            self._ask(node_id, "retire")
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(self.agents[node_id])
        return left, [] if is_whole else self._cuts(node_id)

    def _collect_on(self) -> None:
        while not self._is_over.wait(COLLECT_S):
            for node_id in list(self.agents):
                if node_id in self._terms.elsewhere and node_id not in self._whole:
                    self.collect(node_id)

    def _copies_of(self, node_id: str) -> Copies:
        if node_id not in self._copies:
            offset_ns = self._clock_offset(node_id)
            self._copies[node_id] = Copies(self._directory, node_id[:8], offset_ns=offset_ns)
        return self._copies[node_id]

    def _clock_offset(self, node_id: str) -> int:
        """Return the difference from a node's monotonic time to this one's, by the quickest call.

        The error is at most half of that call's time, and no message takes less. So a cause
        stays before its effect on another host.
        """
        ours = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        found = []
        for _ in range(PINGS):
            sent_ns = self._clock.now_ns()
            theirs_ns, boot = self._ask(node_id, "clock")
            came_ns = self._clock.now_ns()
            if boot == ours:
                return 0
            found.append((came_ns - sent_ns, (sent_ns + came_ns) // 2 - theirs_ns))
        offset_ns: int = min(found)[1]
        return offset_ns

    def _cuts(self, node_id: str) -> list[JournalCut]:
        """Return the journals that may lack their end; none if the node saw the run's files."""
        if node_id not in self._terms.elsewhere:
            return []
        name = node_id[:8]
        begun = self._copies[node_id].sources if node_id in self._copies else frozenset()
        workers = {f"worker-{pid}-{name}" for pid in self._pids[node_id]}
        return [JournalCut(source=s, node_id=node_id) for s in sorted(begun | workers)]

    def _ask(
        self, node_id: str, what: str, *words: Any, more_s: float = 0.0
    ) -> Any:  # whatever the agent gives
        answer = getattr(self.agents[node_id], what).remote(*words)
        return ray.get(answer, timeout=ANSWER_S + more_s)
