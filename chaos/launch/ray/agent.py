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

from chaos.declared import TOKEN_ENV
from chaos.launch.ray.settings import NAMESPACE
from chaos.processes.tree import (
    command_of,
    end_all,
    is_running,
    kill,
    pids_below,
    stands_still,
    with_variable,
)
from chaos.run.clock import SystemClock, came
from chaos.run.signals import signal_of

POLL_S = 0.02


class NodeHands:
    """The operations of an agent on its node."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._raylet = _raylet_above(psutil.Process())

    def ready(self) -> int:
        """Return the raylet's pid, once the agent is up."""
        return int(self._raylet.pid)

    def send_signal(self, pid: int, signal_name: str) -> None:
        """Send a signal to a process below this node's raylet; `ProcessLookupError` if gone."""
        process = self._own(pid)
        process.send_signal(signal_of(signal_name))

    def is_gone(self, pid: int, within_s: float) -> bool:
        return self._came(lambda: not is_running(pid), within_s)

    def processes_below(self, pid: int, name: str | None) -> list[int]:
        return pids_below(self._own(pid).pid, name)

    def is_stopped(self, pid: int, within_s: float) -> bool:
        process = self._own(pid)
        return self._came(lambda: process.status() == psutil.STATUS_STOPPED, within_s)

    def lose_node(self, *, raylet_only: bool) -> None:
        """End the raylet and everything below it, this agent last.

        With `raylet_only` its processes, this agent too, end by themselves.
        """
        below = self._raylet.children(recursive=True)
        self._raylet.kill()
        if raylet_only:
            return
        for process in below:
            if process.pid != os.getpid():
                kill(process)
        os.kill(os.getpid(), signal.SIGKILL)

    def freeze(self, raylet: int) -> tuple[int, ...]:
        """Stop a raylet of this host and all below it; return the pids."""
        above = psutil.Process(raylet)
        above.suspend()  # first, so that it starts nothing meanwhile
        stopped = [raylet]
        for process in above.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
                stopped.append(process.pid)
        return tuple(stopped)

    def are_stopped(self, pids: tuple[int, ...], within_s: float) -> bool:
        return self._came(lambda: all(map(stands_still, pids)), within_s)

    def thaw(self, pids: tuple[int, ...]) -> None:
        """Continue stopped processes, the raylet last."""
        for pid in reversed(pids):
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).resume()

    def first_process(self, raylet: int) -> int:
        """Return the pid of the `ray start --block` that started a raylet of this host."""
        # On Kubernetes the first process of a pod: an eviction signals it, and it drains the node
        # of its own (Ray 2.60).
        above = psutil.Process(raylet).parent()
        if above is None or "--block" not in above.cmdline():
            raise ProcessLookupError(f"raylet {raylet} was not started by `ray start --block`")
        return int(above.pid)

    def end_tree(self, pid: int) -> None:
        """End a process of this host and all below it; nothing to do if it has ended."""
        end_all(pid)

    def _came(self, is_there: Callable[[], bool], within_s: float) -> bool:
        return came(is_there, self._clock, within_s=within_s, poll_s=POLL_S)

    def _own(self, pid: int) -> psutil.Process:
        for process in self._raylet.children(recursive=True):
            if process.pid == pid:
                return process
        raise ProcessLookupError(f"pid {pid} is not below raylet {self._raylet.pid}")


@ray.remote(num_cpus=0, max_concurrency=8, max_restarts=0)
class NodeAgent(NodeHands):
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


def processes_of(token: str) -> list[tuple[int, str]]:
    """Return (pid, command) of this host's processes that have a run's token."""
    found = []
    for process in with_variable(TOKEN_ENV, token):
        with contextlib.suppress(psutil.Error):
            found.append((process.pid, command_of(process)))
    return found


def _raylet_above(process: psutil.Process) -> psutil.Process:
    for parent in process.parents():
        if parent.name().startswith("raylet"):
            return parent
    raise ProcessLookupError("this agent was not started by a raylet")
