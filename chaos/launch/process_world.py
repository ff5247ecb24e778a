"""Faults on the embedded backend: real signals to forked workers, nodes as groups of workers."""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

import psutil

from chaos.faults.world import RefusedError, Target
from chaos.launch.node_disk import NodeDisk
from chaos.launch.world import RunWorld
from chaos.processes.tree import (
    find_descendant_pids,
    find_process_trees,
    find_written_files,
    is_running,
    is_stopped,
)
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import Clock
from chaos.run.ports import LaneFolders, call_in_view

POLL_S = 0.002
END_S = 2.0


class ProcessWorld(RunWorld):
    """The nodes and workers of one run. A node is a name that some workers are started under."""

    #: that of the run's processes, None for none
    view: LaneFolders | None = None

    def __init__(
        self,
        clock: Clock,
        nodes: int,
        armed: ArmedFaults,
        build_disk: Callable[[str], NodeDisk] | None = None,
    ) -> None:
        super().__init__(clock, armed, poll_s=POLL_S)
        self._build_disk = build_disk
        self._lock = threading.Lock()
        #: held until the disk of a lost node is gone: a restart that finds a node before that would
        #: read what another machine does not have
        self._loss_lock = threading.RLock()
        self._live = [f"node-{number}" for number in range(nodes)]
        self._joined = list(self._live)
        self._node_by_pid: dict[int, str] = {}  # of a group that is being started: nodes by pid
        self._deadlines: dict[str, int] = {}
        self._frozen: dict[str, tuple[int, ...]] = {}
        self._added = 0
        self._exhausted: list[int] = []
        self.signalled: set[int] = set()  # the pids that a fault has sent a signal to

    # -- asked by the driver ---------------------------------------------------------------

    def learn_group(self, group: Mapping[int, Target]) -> None:
        super().learn_group(group)
        with self._lock:
            self._node_by_pid.clear()

    def assign_node(self, pid: int, node_id: str) -> None:
        """Set the node of a worker of the next group; kill it if the node was lost meanwhile."""
        # A node may go between the placement of a worker and the report of its group, where no
        # group names it yet. `lose_node` takes the node from `_live` under the same lock: either it
        # finds the worker in `_node_by_pid`, or this finds the node gone.
        with self._lock:
            self._node_by_pid[pid] = node_id
            is_lost = node_id not in self._live
        if is_lost and is_running(pid):
            self.signalled.add(pid)
            os.kill(pid, signal.SIGKILL)

    def live_nodes(self) -> list[str]:
        with self._loss_lock, self._lock:
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

    def list_descendants(self, target: Target, *, name: str | None = None) -> list[int]:
        return find_descendant_pids(target.pid, name)

    def await_worker_stop(self, target: Target, *, within_s: float) -> bool:
        return self._await_even_after_run(lambda: _is_stopped(target.pid), within_s)

    def end_worker_actor(self, target: Target) -> None:
        """End the worker as `ray.kill` does: its process is killed."""
        self.signal_worker(target, "KILL")

    def disguise_as_memory_kill(self, target: Target) -> None:
        """Let the driver's calls to the target fail with `OutOfMemoryError` once it has ended."""
        self._exhausted.append(target.pid)

    def await_worker_end(self, target: Target, *, within_s: float) -> bool:
        return self._await_even_after_run(lambda: not is_running(target.pid), within_s)

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
        with self._loss_lock:
            return self._lose_node(node_id, unsynced=unsynced)

    def _lose_node(self, node_id: str, *, unsynced: bool) -> Sequence[str]:
        with self._lock:
            if node_id not in self._live:
                raise ProcessLookupError(f"{node_id} is lost already")
            self._live.remove(node_id)
            worker_pids = self._find_worker_pids(node_id)
        self.signalled.update(worker_pids)
        _signal(worker_pids, signal.SIGSTOP)  # so that no file is closed once it was looked at
        pids = [process.pid for process in find_process_trees(worker_pids)]
        unfinished = call_in_view(self.view, find_written_files, pids)
        _signal(worker_pids, signal.SIGKILL)
        if self._build_disk is not None:  # removed only once no process is left that could write
            self._await_even_after_run(lambda: not any(map(is_running, worker_pids)), END_S)
            simulate_loss = self._build_disk(node_id).simulate_loss
            return call_in_view(self.view, simulate_loss, unsynced=unsynced, unfinished=unfinished)
        return ()

    def freeze_node(self, node_id: str, *, within_s: float) -> int | None:
        with self._lock:
            workers = self._find_worker_pids(node_id)
        running_pids = tuple(pid for pid in workers if is_running(pid))
        if not running_pids:
            raise ProcessLookupError(f"nothing runs on {node_id}")
        self._frozen[node_id] = running_pids
        for pid in running_pids:
            os.kill(pid, signal.SIGSTOP)
        is_still = self._await_even_after_run(lambda: all(map(is_stopped, running_pids)), within_s)
        return len(running_pids) if is_still else None

    def thaw_node(self, node_id: str) -> None:
        for pid in filter(is_running, self._frozen.pop(node_id)):
            os.kill(pid, signal.SIGCONT)

    def list_worker_nodes(self) -> list[str]:
        with self._lock:
            return list(self._joined)

    def idle_nodes(self) -> list[str]:
        with self._lock:
            used = {target.node_id for target in self.list_targets().values()} | set(
                self._deadlines
            )
            return [node for node in self._live if node not in used]

    def add_nodes(self, count: int, *, within_s: float) -> list[str]:
        del within_s
        with self._lock:
            new_nodes = [f"node-new-{self._added + number}" for number in range(count)]
            self._added += count
            self._live += new_nodes
            self._joined += new_nodes
            return new_nodes

    def end_driver(self) -> int:
        """Kill the driver, in which Ray's controller lives; its workers end with it."""
        pid = self.driver_pid
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

    def await_node_death(self, node_id: str, *, within_s: float) -> bool:
        del within_s
        with self._lock:
            return node_id not in self._live

    def _find_worker_pids(self, node_id: str) -> list[int]:
        group_pids = [
            target.pid for target in self.list_targets().values() if target.node_id == node_id
        ]
        return group_pids + [pid for pid, node in self._node_by_pid.items() if node == node_id]


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in filter(is_running, pids):
        os.kill(pid, number)


def _is_stopped(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError(f"pid {pid}") from error
