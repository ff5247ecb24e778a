"""Faults on nodes that are processes: a first one, its workers, and all that they started."""

import os
import signal
from abc import abstractmethod
from collections.abc import Sequence

import psutil

from chaos.faults.world import RefusedError
from chaos.launch.process_world import END_S, ProcessWorld
from chaos.processes.tree import all_of, is_running, signal_all, stands_still, written_by
from chaos.run.ports import seen_in

LOOKS = 3  # for processes that were started while the others were being stopped


class MachineWorld(ProcessWorld):
    """The nodes and workers of one run, with real processes as nodes."""

    def machine(self) -> str:
        """Return the machine of the next start: the present one, unless it is lost or to be."""
        with self._losing, self._lock:
            there = [node for node in self._live if node not in self._deadlines]
            if not there:
                there = [f"node-{len(self._joined)}"]
                self._live += there
                self._joined += there
        return there[-1]

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        """Send SIGTERM to the node's first process, as the end of a pod does.

        Where the run has a metadata service, that alone announces the loss, as on a cloud.
        """
        # Taken from now on, and not when it goes: the process may end within the notice, and its
        # exit code is then no word about the job.
        pid = self._running(node_id)
        with self._lock:
            self._deadlines[node_id] = self._clock.wall_ns() // 1_000_000 + int(notice_s * 1000)
        self.take(node_id)
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
        self.take(node_id)
        with self._lock:
            if node_id not in self._live:
                raise ProcessLookupError(f"{node_id} is lost already")
            self._live.remove(node_id)
        struck = self._stopped(node_id)
        pids = [process.pid for process in struck]
        unfinished = seen_in(self.view, written_by, pids)
        self.signalled.update(pids)
        signal_all(struck, signal.SIGKILL)
        self._until(lambda: not any(is_running(process.pid) for process in struck), END_S)
        assert self._disk_of is not None
        lose = self._disk_of(node_id).lose
        return seen_in(self.view, lose, unsynced=unsynced, unfinished=unfinished)

    def freeze_node(self, node_id: str, *, within_s: float) -> int | None:
        self._running(node_id)
        struck = self._stopped(node_id)
        pids = self._frozen[node_id] = tuple(process.pid for process in struck)
        is_still = self._until(lambda: all(map(stands_still, pids)), within_s)
        return len(struck) if is_still else None

    def node_is_dead(self, node_id: str, *, within_s: float) -> bool:
        """Return whether the node's first process has ended: there is no list of nodes to ask."""
        pid = self.first_of(node_id)
        return self._until(lambda: not is_running(pid), within_s)

    def _running(self, node_id: str) -> int:
        """Return the pid of a node's first process; raises `ProcessLookupError` if it has ended."""
        pid = self.first_of(node_id)
        if not is_running(pid):
            raise ProcessLookupError(f"the first process of {node_id} has ended")
        return pid

    def _stopped(self, node_id: str) -> list[psutil.Process]:
        """Stop all processes of a node, the first one first, so that they end in one instant."""
        # A machine goes in one instant. Killed one by one, the first would see its workers die and
        # report it, or start new ones. What is stopped can do neither; the tree is looked at again,
        # since a process that was not stopped yet may have started another.
        found: list[psutil.Process] = []
        for _ in range(LOOKS):
            found = all_of(self.roots_of(node_id))
            signal_all(found, signal.SIGSTOP)
        return found

    def roots_of(self, node_id: str) -> list[int]:
        """Return the pids whose processes, with all below them, are those of a node."""
        workers = [t.pid for t in self.group().values() if t.node_id == node_id]
        return [self.first_of(node_id), *workers]

    # -- filled in by a launcher -----------------------------------------------------------

    @abstractmethod
    def first_of(self, node_id: str) -> int:
        """Return the pid of the first process of a node, with which all others there end."""

    @abstractmethod
    def take(self, node_id: str) -> None:
        """Note that a fault takes a node, whose first process has an exit code without meaning."""
