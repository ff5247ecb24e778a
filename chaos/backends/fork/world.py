"""Harm on the embedded backend: real signals to forked workers, nodes as groups of them."""

import os
import signal
import threading
from collections.abc import Mapping

import psutil

from chaos.faults.order import Order
from chaos.faults.world import Victim
from chaos.run.armed import ArmedFaults, StorageWorld
from chaos.run.clock import Clock, seconds_since
from chaos.run.witness import Witness

POLL_S = 0.002


class ForkWorld(StorageWorld):
    """A node is a name that some workers were started under; losing it ends them at once."""

    def __init__(self, clock: Clock, nodes: int, armed: ArmedFaults) -> None:
        super().__init__(armed, clock)
        self._clock = clock
        self._lock = threading.Lock()
        self._live = [f"node-{number}" for number in range(nodes)]
        self._deadlines: dict[str, int] = {}
        self._group: dict[int, Victim] = {}
        self.witness = Witness(clock)

    # -- asked by the driver ---------------------------------------------------------------

    def learn_group(self, group: Mapping[int, Victim]) -> None:
        """Learn who holds each rank."""
        with self._lock:
            self._group = dict(group)

    def live_nodes(self) -> list[str]:
        """Give the nodes that new workers may be placed on."""
        with self._lock:
            return [node for node in self._live if node not in self._deadlines]

    def draining(self) -> dict[str, int]:
        """Give the nodes that were announced to be lost, with deadlines (unix ms)."""
        with self._lock:
            return dict(self._deadlines)

    def preempted(self) -> list[str]:
        """Give the nodes that were lost after their loss had been announced."""
        with self._lock:
            return [node for node in self._deadlines if node not in self._live]

    # -- asked by the faults ---------------------------------------------------------------

    def signal_worker(self, victim: Victim, signal_name: str) -> None:
        """Send a signal to the victim's process."""
        if not _is_running(victim.pid):
            raise ProcessLookupError(f"pid {victim.pid}")
        os.kill(victim.pid, signal.Signals[f"SIG{signal_name}"])

    def worker_is_stopped(self, victim: Victim, *, within_s: float) -> bool:
        """Wait until the victim's process is stopped."""
        start = self._clock.now_ns()
        while not _is_stopped(victim.pid):
            if seconds_since(start, self._clock) > within_s:
                return False
            self._clock.sleep(POLL_S)
        return True

    def group(self) -> Mapping[int, Victim]:
        """Give who holds each rank now."""
        with self._lock:
            return dict(self._group)

    def failure_of(self, victim: Victim, *, within_s: float) -> Mapping[int, str] | None:
        """Wait until Ray has recorded that the victim's attempt failed."""
        return self.witness.failure_of(victim.attempt, within_s=within_s)

    def has_obeyed(self, order: Order, *, within_s: float) -> bool:
        """Wait until a worker says that it does as it was told."""
        return self.witness.has_obeyed(order, within_s=within_s)

    def let_pass(self, seconds: float) -> bool:
        """Let time pass; False where the run ended before it was over."""
        return self.witness.let_pass(seconds)

    def end_worker_actor(self, victim: Victim) -> None:
        """End the worker as `ray.kill` does: its process is killed."""
        self.signal_worker(victim, "KILL")

    def worker_is_gone(self, victim: Victim, *, within_s: float) -> bool:
        """Wait until the victim's process has ended."""
        start = self._clock.now_ns()
        while _is_running(victim.pid):
            if seconds_since(start, self._clock) > within_s:
                return False
            self._clock.sleep(POLL_S)
        return True

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        """Announce the loss of a node; Ray's own watcher asks for it and tells every rank."""
        with self._lock:
            if node_id not in self._live:
                raise ProcessLookupError(f"{node_id} is lost already")
            unix_ms = (self._clock.wall_ns() + int(notice_s * 1e9)) // 1_000_000
            self._deadlines[node_id] = unix_ms
        return self._clock.now_ns() + int(notice_s * 1e9)

    def wait_until(self, deadline_ns: int) -> bool:
        """Wait for a deadline, or for the end of the run."""
        while self._clock.now_ns() < deadline_ns:
            if self.witness.over:
                return False
            self._clock.sleep(POLL_S)
        return True

    def lose_node(self, node_id: str) -> None:
        """End every worker of the node, and place none there again."""
        with self._lock:
            if node_id not in self._live:
                raise ProcessLookupError(f"{node_id} is lost already")
            self._live.remove(node_id)
            struck = [victim for victim in self._group.values() if victim.node_id == node_id]
        for victim in struck:
            if _is_running(victim.pid):
                os.kill(victim.pid, signal.SIGKILL)

    def node_is_dead(self, node_id: str, *, within_s: float) -> bool:
        """Say whether the node is lost; here that is known at once."""
        del within_s
        with self._lock:
            return node_id not in self._live


def _is_stopped(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError(f"pid {pid}") from error


def _is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
