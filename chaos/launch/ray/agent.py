"""The node agent, which injects faults on one node.

It signals only processes of its own node's raylet, by pid. The head's agent may
also stop and continue the raylets of its host, which cannot continue themselves.
"""

import contextlib
import os
import signal
from collections.abc import Callable
from typing import Any

import psutil
import ray

from chaos.declaration import TOKEN_ENV
from chaos.launch.ray.settings import NAMESPACE
from chaos.processes.tree import (
    describe_command,
    find_descendant_pids,
    find_processes_by_variable,
    is_running,
    is_stopped,
    kill,
    kill_tree,
)
from chaos.run.clock import SystemClock, await_condition
from chaos.run.signals import find_signal

POLL_S = 0.02


class NodeOperations:
    """The operations of an agent on its node."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._raylet = _find_raylet(psutil.Process())

    def await_raylet_pid(self) -> int:
        """Return the raylet's pid, once the agent is up."""
        return int(self._raylet.pid)

    def send_signal(self, pid: int, signal_name: str) -> None:
        """Send a signal to a process below this node's raylet; `ProcessLookupError` if gone."""
        process = self._find_process(pid)
        process.send_signal(find_signal(signal_name))

    def is_gone(self, pid: int, within_s: float) -> bool:
        return self._await_condition(lambda: not is_running(pid), within_s)

    def list_descendants(self, pid: int, name: str | None) -> list[int]:
        return find_descendant_pids(self._find_process(pid).pid, name)

    def is_stopped(self, pid: int, within_s: float) -> bool:
        process = self._find_process(pid)
        return self._await_condition(lambda: process.status() == psutil.STATUS_STOPPED, within_s)

    def lose_node(self, *, raylet_only: bool) -> None:
        """End the raylet and everything below it, this agent last.

        With `raylet_only` its processes, this agent too, end by themselves.
        """
        descendants = self._raylet.children(recursive=True)
        self._raylet.kill()
        if raylet_only:
            return
        for process in descendants:
            if process.pid != os.getpid():
                kill(process)
        os.kill(os.getpid(), signal.SIGKILL)

    def freeze(self, raylet: int) -> tuple[int, ...]:
        """Stop a raylet of this host and all below it; return the pids."""
        raylet_process = psutil.Process(raylet)
        raylet_process.suspend()  # first, so that it starts nothing meanwhile
        stopped = [raylet]
        for process in raylet_process.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
                stopped.append(process.pid)
        return tuple(stopped)

    def are_stopped(self, pids: tuple[int, ...], within_s: float) -> bool:
        return self._await_condition(lambda: all(map(is_stopped, pids)), within_s)

    def thaw(self, pids: tuple[int, ...]) -> None:
        """Continue stopped processes, the raylet last."""
        for pid in reversed(pids):
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).resume()

    def find_first_process(self, raylet: int) -> int:
        """Return the pid of the `ray start --block` that started a raylet of this host."""
        # On Kubernetes the first process of a pod: an eviction signals it, and it drains the node
        # of its own (Ray 2.60).
        parent = psutil.Process(raylet).parent()
        if parent is None or "--block" not in parent.cmdline():
            raise ProcessLookupError(f"raylet {raylet} was not started by `ray start --block`")
        return int(parent.pid)

    def end_tree(self, pid: int) -> None:
        """End a process of this host and all below it; nothing to do if it has ended."""
        kill_tree(pid)

    def _await_condition(self, is_met: Callable[[], bool], within_s: float) -> bool:
        return await_condition(is_met, self._clock, within_s=within_s, poll_s=POLL_S)

    def _find_process(self, pid: int) -> psutil.Process:
        for process in self._raylet.children(recursive=True):
            if process.pid == pid:
                return process
        raise ProcessLookupError(f"pid {pid} is not below raylet {self._raylet.pid}")


@ray.remote(num_cpus=0, max_concurrency=8, max_restarts=0)
class NodeAgent(NodeOperations):
    """The agent of a node of a local cluster, as an actor."""


def start_agents(node_ids: list[str]) -> dict[str, Any]:
    """Start an agent on each node; return their handles without waiting for them."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {
        node_id: NodeAgent.options(  # type: ignore[attr-defined]
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
            namespace=NAMESPACE,
        ).remote()
        for node_id in node_ids
    }


def find_run_processes(token: str) -> list[tuple[int, str]]:
    """Return (pid, command) of this host's processes that have a run's token."""
    processes = []
    for process in find_processes_by_variable(TOKEN_ENV, token):
        with contextlib.suppress(psutil.Error):
            processes.append((process.pid, describe_command(process)))
    return processes


def _find_raylet(process: psutil.Process) -> psutil.Process:
    for parent in process.parents():
        if parent.name().startswith("raylet"):
            return parent
    raise ProcessLookupError("this agent was not started by a raylet")
