"""Faults on nodes that are processes: a first one, its workers, and all that they started."""

import os
import signal
from abc import abstractmethod
from collections.abc import Sequence

import psutil

from chaos.faults.world import RefusedError
from chaos.launch.process_world import END_S, ProcessWorld
from chaos.processes.tree import (
    find_process_trees,
    find_written_files,
    is_running,
    is_stopped,
    signal_processes,
)
from chaos.run.ports import call_in_view

LOOKS = 3  # for processes that were started while the others were being stopped


class MachineWorld(ProcessWorld):
    """The nodes and workers of one run, with real processes as nodes."""

    def select_machine(self) -> str:
        """Return the machine of the next start: the present one, unless it is lost or to be."""
        with self._loss_lock, self._lock:
            available = [node for node in self._live if node not in self._deadlines]
            if not available:
                available = [f"node-{len(self._joined)}"]
                self._live += available
                self._joined += available
        return available[-1]

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        """Send SIGTERM to the node's first process, as the end of a pod does.

        Where the run has a metadata service, that alone announces the loss, as on a cloud.
        """
        # Taken from now on, and not when it goes: the process may end within the notice, and its
        # exit code is then no word about the job.
        pid = self._find_running_pid(node_id)
        with self._lock:
            self._deadlines[node_id] = self._clock.wall_ns() // 1_000_000 + int(notice_s * 1000)
        self.mark_faulted(node_id)
        if self.metadata is None:
            self.signalled.add(pid)
            os.kill(pid, signal.SIGTERM)
        return self._clock.now_ns() + int(notice_s * 1e9)

    def lose_node(
        self, node_id: str, *, raylet_only: bool = False, unsynced: bool = False
    ) -> Sequence[str]:
        """Kill everything on a node at once; one that was given notice may have ended before."""
        if raylet_only:
            raise RefusedError("a node without Ray has no raylet")
        return super().lose_node(node_id, unsynced=unsynced)

    def _lose_node(self, node_id: str, *, unsynced: bool) -> Sequence[str]:
        self.mark_faulted(node_id)
        with self._lock:
            if node_id not in self._live:
                raise ProcessLookupError(f"{node_id} is lost already")
            self._live.remove(node_id)
        processes = self._stop_processes(node_id)
        pids = [process.pid for process in processes]
        unfinished = call_in_view(self.view, find_written_files, pids)
        self.signalled.update(pids)
        signal_processes(processes, signal.SIGKILL)
        self._await_even_after_run(
            lambda: not any(is_running(process.pid) for process in processes), END_S
        )
        assert self._build_disk is not None
        simulate_loss = self._build_disk(node_id).simulate_loss
        return call_in_view(self.view, simulate_loss, unsynced=unsynced, unfinished=unfinished)

    def freeze_node(self, node_id: str, *, within_s: float) -> int | None:
        self._find_running_pid(node_id)
        processes = self._stop_processes(node_id)
        pids = self._frozen[node_id] = tuple(process.pid for process in processes)
        is_still = self._await_even_after_run(lambda: all(map(is_stopped, pids)), within_s)
        return len(processes) if is_still else None

    def await_node_death(self, node_id: str, *, within_s: float) -> bool:
        """Return whether the node's first process has ended: there is no list of nodes to ask."""
        pid = self.find_first_pid(node_id)
        return self._await_even_after_run(lambda: not is_running(pid), within_s)

    def _find_running_pid(self, node_id: str) -> int:
        """Return the pid of a node's first process; raises `ProcessLookupError` if it has ended."""
        pid = self.find_first_pid(node_id)
        if not is_running(pid):
            raise ProcessLookupError(f"the first process of {node_id} has ended")
        return pid

    def _stop_processes(self, node_id: str) -> list[psutil.Process]:
        """Stop all processes of a node, the first one first, so that they end in one instant."""
        # A machine goes in one instant. Killed one by one, the first would see its workers die and
        # report it, or start new ones. What is stopped can do neither; the tree is looked at again,
        # since a process that was not stopped yet may have started another.
        processes: list[psutil.Process] = []
        for _ in range(LOOKS):
            processes = find_process_trees(self.find_root_pids(node_id))
            signal_processes(processes, signal.SIGSTOP)
        return processes

    def find_root_pids(self, node_id: str) -> list[int]:
        """Return the pids whose processes, with all below them, are those of a node."""
        workers = [t.pid for t in self.list_targets().values() if t.node_id == node_id]
        return [self.find_first_pid(node_id), *workers]

    # -- filled in by a launcher -----------------------------------------------------------

    @abstractmethod
    def find_first_pid(self, node_id: str) -> int:
        """Return the pid of the first process of a node, with which all others there end."""

    @abstractmethod
    def mark_faulted(self, node_id: str) -> None:
        """Note that a fault takes a node, whose first process has an exit code without meaning."""
