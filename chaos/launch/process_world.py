"""Faults on the embedded backend: real signals to forked workers, nodes as groups of workers."""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

import psutil

from chaos.faults.world import RefusedError, Target
from chaos.launch.node_disk import NodeDisk
from chaos.launch.world import RunWorld
from chaos.processes.tree import all_of, is_running, pids_below, stands_still, written_by
from chaos.run.armed import ArmedFaults
from chaos.run.clock import Clock
from chaos.run.ports import View, seen_in

POLL_S = 0.002
END_S = 2.0


class ProcessWorld(RunWorld):
    """The nodes and workers of one run. A node is a name that some workers are started under."""

    #: that of the run's processes, None for none
    view: View | None = None

    def __init__(
        self,
        clock: Clock,
        nodes: int,
        armed: ArmedFaults,
        disk_of: Callable[[str], NodeDisk] | None = None,
    ) -> None:
        super().__init__(clock, armed, poll_s=POLL_S)
        self._disk_of = disk_of
        self._lock = threading.Lock()
        #: held until the disk of a lost node is gone: a restart that finds a node before that would
        #: read what another machine does not have
        self._losing = threading.RLock()
        self._live = [f"node-{number}" for number in range(nodes)]
        self._joined = list(self._live)
        self._placed: dict[int, str] = {}  # of a group that is being started: nodes by pid
        self._deadlines: dict[str, int] = {}
        self._frozen: dict[str, tuple[int, ...]] = {}
        self._added = 0
        self._exhausted: list[int] = []
        self.signalled: set[int] = set()  # the pids that a fault has sent a signal to

    # -- asked by the driver ---------------------------------------------------------------

    def learn_group(self, group: Mapping[int, Target]) -> None:
        super().learn_group(group)
        with self._lock:
            self._placed.clear()

    def placed(self, pid: int, node_id: str) -> None:
        """Set the node of a worker of the next group; kill it if the node was lost meanwhile."""
        # A node may go between the placement of a worker and the report of its group, where no
        # group names it yet. `lose_node` takes the node from `_live` under the same lock: either it
        # finds the worker in `_placed`, or this finds the node gone.
        with self._lock:
            self._placed[pid] = node_id
            is_lost = node_id not in self._live
        if is_lost and is_running(pid):
            self.signalled.add(pid)
            os.kill(pid, signal.SIGKILL)

    def live_nodes(self) -> list[str]:
        with self._losing, self._lock:
            return [node for node in self._live if node not in self._deadlines]

    def draining(self) -> dict[str, int]:
        with self._lock:
            return dict(self._deadlines)

    def preempted(self) -> list[str]:
        with self._lock:
            return [node for node in self._deadlines if node not in self._live]

    def exhausted(self) -> list[int]:
        return list(self._exhausted)

    # -- asked by the faults ---------------------------------------------------------------

    def signal_worker(self, target: Target, signal_name: str) -> None:
        if not is_running(target.pid):
            raise ProcessLookupError(f"pid {target.pid}")
        self.signalled.add(target.pid)
        os.kill(target.pid, signal.Signals[f"SIG{signal_name}"])

    def processes_below(self, target: Target, *, name: str | None = None) -> list[int]:
        return pids_below(target.pid, name)

    def worker_is_stopped(self, target: Target, *, within_s: float) -> bool:
        return self._until(lambda: _is_stopped(target.pid), within_s)

    def end_worker_actor(self, target: Target) -> None:
        """End the worker as `ray.kill` does: its process is killed."""
        self.signal_worker(target, "KILL")

    def blame_memory(self, target: Target) -> None:
        """Let the driver's calls to the target fail with `OutOfMemoryError` once it has ended."""
        self._exhausted.append(target.pid)

    def worker_is_gone(self, target: Target, *, within_s: float) -> bool:
        return self._until(lambda: not is_running(target.pid), within_s)

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        """Announce the loss of a node; Ray's own watcher polls for it and informs every rank."""
        with self._lock:
            if node_id not in self._live:
                raise ProcessLookupError(f"{node_id} is lost already")
            unix_ms = (self._clock.wall_ns() + int(notice_s * 1e9)) // 1_000_000
            self._deadlines[node_id] = unix_ms
        return self._clock.now_ns() + int(notice_s * 1e9)

    def lose_node(
        self, node_id: str, *, raylet_only: bool = False, unsynced: bool = False
    ) -> Sequence[str]:
        """End every worker of the node, and place none there again; there is no raylet here.

        Removes the node's disk: its temporary folder, and what it wrote to the host's.
        """
        del raylet_only
        with self._losing:
            return self._lose_node(node_id, unsynced=unsynced)

    def _lose_node(self, node_id: str, *, unsynced: bool) -> Sequence[str]:
        with self._lock:
            if node_id not in self._live:
                raise ProcessLookupError(f"{node_id} is lost already")
            self._live.remove(node_id)
            struck = self._workers_on(node_id)
        self.signalled.update(struck)
        _signal(struck, signal.SIGSTOP)  # so that no file is closed once it was looked at
        pids = [process.pid for process in all_of(struck)]
        unfinished = seen_in(self.view, written_by, pids)
        _signal(struck, signal.SIGKILL)
        if self._disk_of is not None:  # removed only once no process is left that could write
            self._until(lambda: not any(map(is_running, struck)), END_S)
            lose = self._disk_of(node_id).lose
            return seen_in(self.view, lose, unsynced=unsynced, unfinished=unfinished)
        return ()

    def freeze_node(self, node_id: str, *, within_s: float) -> int | None:
        with self._lock:
            workers = self._workers_on(node_id)
        struck = tuple(pid for pid in workers if is_running(pid))
        if not struck:
            raise ProcessLookupError(f"nothing runs on {node_id}")
        self._frozen[node_id] = struck
        for pid in struck:
            os.kill(pid, signal.SIGSTOP)
        is_still = self._until(lambda: all(map(stands_still, struck)), within_s)
        return len(struck) if is_still else None

    def thaw_node(self, node_id: str) -> None:
        for pid in filter(is_running, self._frozen.pop(node_id)):
            os.kill(pid, signal.SIGCONT)

    def joined_nodes(self) -> list[str]:
        with self._lock:
            return list(self._joined)

    def idle_nodes(self) -> list[str]:
        with self._lock:
            used = {target.node_id for target in self.group().values()} | set(self._deadlines)
            return [node for node in self._live if node not in used]

    def add_nodes(self, count: int, *, within_s: float) -> list[str]:
        del within_s
        with self._lock:
            fresh = [f"node-new-{self._added + number}" for number in range(count)]
            self._added += count
            self._live += fresh
            self._joined += fresh
            return fresh

    def end_driver(self) -> int:
        """Kill the driver, in which Ray's controller lives; its workers end with it."""
        pid = self.driver
        if pid is None or not is_running(pid):
            raise ProcessLookupError("there is no driver")
        self.signalled.add(pid)
        os.kill(pid, signal.SIGKILL)
        while is_running(pid):  # no limit: a killed process always ends
            self._clock.sleep(POLL_S)
        return pid

    def end_controller(self) -> int:
        raise RefusedError("on the embedded backend Ray's controller lives in the driver")

    def terminate_node(self, node_id: str, *, drains_s: float) -> int:
        del node_id, drains_s
        raise RefusedError("the embedded backend has no `ray start`, the first process of a pod")

    def end_node(self, node_id: str) -> None:
        raise AssertionError(node_id)  # refused in `terminate_node`

    def end_gcs(self) -> int:
        raise RefusedError("the embedded backend has no GCS")

    def start_gcs(self, *, within_s: float) -> int | None:
        del within_s  # never asked, as `end_gcs` is refused
        return None

    def node_is_dead(self, node_id: str, *, within_s: float) -> bool:
        del within_s
        with self._lock:
            return node_id not in self._live

    def _workers_on(self, node_id: str) -> list[int]:
        held = [target.pid for target in self.group().values() if target.node_id == node_id]
        return held + [pid for pid, node in self._placed.items() if node == node_id]


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in filter(is_running, pids):
        os.kill(pid, number)


def _is_stopped(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError(f"pid {pid}") from error
