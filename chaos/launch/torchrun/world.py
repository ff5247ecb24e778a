"""Faults on nodes of torchrun: a node is an agent, its workers, and all that they started."""

import os
import signal
from collections.abc import Callable

import psutil

from chaos.faults.world import RefusedError
from chaos.launch.node_disk import NodeDisk
from chaos.launch.process_world import END_S, ProcessWorld
from chaos.launch.torchrun.agents import Agents
from chaos.processes.tree import all_of, is_running, signal_all, stands_still
from chaos.run.armed import ArmedFaults
from chaos.run.clock import Clock

TAKEN_IN_S = 10.0  # a lost node counts for three seconds more
LOOKS = 3  # for processes that were started while the others were being stopped


class AgentWorld(ProcessWorld):
    """The nodes and workers of one run, with real processes as nodes."""

    def __init__(
        self,
        clock: Clock,
        nodes: int,
        armed: ArmedFaults,
        disk_of: Callable[[str], NodeDisk],
    ) -> None:
        super().__init__(clock, nodes, armed, disk_of)
        self.agents: Agents | None = None
        self.ready: set[str] = set()  # the nodes whose agents have come to their first rendezvous

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        """Send SIGTERM to the node's agent, which passes it on to its workers.

        torchelastic kills those that are there after its `--shutdown-timeout`, and leaves. Where
        the run has a metadata service, that alone announces the loss, as on a cloud.
        """
        # Taken from now on, and not when it goes: torchelastic ends the agent within the notice,
        # and its exit code is then no word about the job.
        pid = self._agent(node_id)
        with self._lock:
            self._deadlines[node_id] = self._clock.wall_ns() // 1_000_000 + int(notice_s * 1000)
        self._known().take(node_id)
        if self.metadata is None:
            self.signalled.add(pid)
            os.kill(pid, signal.SIGTERM)
        return self._clock.now_ns() + int(notice_s * 1e9)

    def lose_node(self, node_id: str, *, raylet_only: bool = False) -> None:
        """Kill everything on a node at once; one that was given notice may have ended before."""
        if raylet_only:
            raise RefusedError("a node of torchrun has no raylet")
        self._known().take(node_id)
        with self._lock:
            if node_id not in self._live:
                raise ProcessLookupError(f"{node_id} is lost already")
            self._live.remove(node_id)
        struck = self._stopped(node_id)
        self.signalled.update(process.pid for process in struck)
        signal_all(struck, signal.SIGKILL)
        self._until(lambda: not any(is_running(process.pid) for process in struck), END_S)
        assert self._disk_of is not None
        self._disk_of(node_id).lose()

    def freeze_node(self, node_id: str, *, within_s: float) -> int | None:
        self._agent(node_id)
        struck = self._stopped(node_id)
        pids = self._frozen[node_id] = tuple(process.pid for process in struck)
        is_still = self._until(lambda: all(map(stands_still, pids)), within_s)
        return len(struck) if is_still else None

    def node_is_dead(self, node_id: str, *, within_s: float) -> bool:
        """Return whether the node's agent has ended: torchrun keeps no list of nodes to ask."""
        pid = self._known().pid_of(node_id)
        return self._until(lambda: not is_running(pid), within_s)

    def add_nodes(self, count: int, *, within_s: float) -> list[str]:
        """Start agents that join the rendezvous; return the nodes of those that come to it.

        The other agents ask for newcomers once a second. Until they have taken these in, or need
        none, training that is held for them may not go on: it could be over before.
        """
        added = [self._known().add() for _ in range(count)]
        with self._lock:
            self._live += added
            self._joined += added
        self._await(lambda: self.ready.issuperset(added), within_s)
        self._await(lambda: self._have_workers(added), TAKEN_IN_S)
        return [node for node in added if node in self.ready]

    def _have_workers(self, nodes: list[str]) -> bool:
        return {worker.node_id for worker in self.group().values()}.issuperset(nodes)

    def _agent(self, node_id: str) -> int:
        """Return the pid of a node's agent; raises `ProcessLookupError` if it has ended."""
        pid = self._known().pid_of(node_id)
        if not is_running(pid):
            raise ProcessLookupError(f"the agent of {node_id} has ended")
        return pid

    def _known(self) -> Agents:
        assert self.agents is not None
        return self.agents

    def _stopped(self, node_id: str) -> list[psutil.Process]:
        """Stop all processes of a node, the agent first, so that they end in one instant."""
        # A machine goes in one instant. Killed one by one, the agent would see its workers die and
        # report it, or start new ones. What is stopped can do neither; the tree is looked at again,
        # since a process that was not stopped yet may have started another.
        agent = self._known().pid_of(node_id)
        found: list[psutil.Process] = []
        for _ in range(LOOKS):
            workers = [t.pid for t in self.group().values() if t.node_id == node_id]
            found = all_of([agent, *workers])
            signal_all(found, signal.SIGSTOP)
        return found
