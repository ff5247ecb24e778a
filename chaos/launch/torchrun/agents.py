"""torchrun's agents of one run: a process per node, each in a session of its own."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from chaos.launch.torchrun.rendezvous import HOST
from chaos.launch.torchrun.settings import node_name
from chaos.processes.start import Process
from chaos.processes.tree import kill_tree


class Agents:
    """The agents of one start of the command, by their nodes; `start` starts the one of a node.

    All are started by one thread: the kernel ends a child that asked for it when the thread ends
    that has started it (PR_SET_PDEATHSIG), and the thread of a fault ends with the fault.
    """

    def __init__(self, start: Callable[[str], Process], first: int = HOST) -> None:
        self._start = start
        self._first = first  # the number of the node that hosts the rendezvous
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="agents")
        self._guard = threading.Lock()
        self._agents: dict[str, Process] = {}
        self._faulted: set[str] = set()  # nodes that a fault took, or gave notice

    @property
    def host(self) -> str:
        """The node of the first agent, which hosts the rendezvous."""
        return node_name(self._first)

    def has_node(self, node_id: str) -> bool:
        return node_id in self._agents

    def find_pid(self, node_id: str) -> int:
        return self._agents[node_id].pid

    def add(self) -> str:
        """Start the agent of one more node; return the node's name."""
        return self._starter.submit(self._add).result()

    def _add(self) -> str:
        node = node_name(self._first + len(self._agents))
        process = self._start(node)
        with self._guard:
            self._agents[node] = process
        return node

    def mark_faulted(self, node_id: str) -> None:
        """Note that a fault ends a node's agent, so that its exit code means nothing."""
        self._faulted.add(node_id)

    @property
    def has_faulted(self) -> bool:
        return bool(self._faulted)

    def find_exit_codes(self) -> dict[str, int | None]:
        """Return the exit codes of the agents that no fault has taken, None while they run."""
        with self._guard:
            unfaulted = {
                name: process for name, process in self._agents.items() if name not in self._faulted
            }
        return {node: process.poll() for node, process in unfaulted.items()}

    def have_ended(self) -> bool:
        """Return whether no agent runs, those included that a fault has taken."""
        with self._guard:
            processes = list(self._agents.values())
        return all([process.poll() is not None for process in processes])  # noqa: C419 - reap each

    def end_agent(self, node_id: str) -> None:
        """Kill a node's agent, whose exit code then means nothing."""
        self.mark_faulted(node_id)
        kill_tree(self.find_pid(node_id))

    def end(self) -> None:
        with self._guard:
            processes = list(self._agents.values())
        for process in processes:
            if process.poll() is None:
                kill_tree(process.pid)
        for process in processes:
            process.wait()

    def close(self) -> None:
        """End the thread that starts agents, and with it those that are left."""
        self._starter.shutdown()
