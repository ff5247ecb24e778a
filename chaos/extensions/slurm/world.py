"""Faults on the job of a Slurm, and on the nodes of a local one.

A node is a slurmd, its steps, and what they started.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil

from chaos.extensions.slurm.client import Slurm
from chaos.extensions.slurm.cluster import SPARES, SlurmCluster
from chaos.faults.world import RefusedError, Target
from chaos.launch.commands.world import MachineWorld
from chaos.launch.node_disk import NodeDisk
from chaos.processes.tree import is_running, is_stopped
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import Clock

TAKES_S = 1.0  # for which a job of higher priority has the node
ACTS_S = 10.0  # until Slurm acts on what it was asked
STILL_S = 1.0  # until a process that was sent SIGSTOP stands still
STEP = "slurmstepd"  # the process of a step on a node, which is no child of its slurmd
FOREIGN_SLURM = "a Slurm that chaos did not start"


class SlurmWorld(MachineWorld):
    """The workers of one run, and the queue of its job; no node is chaos's to touch."""

    def __init__(
        self,
        clock: Clock,
        slurm: Slurm,
        armed: ArmedFaults,
        build_disk: Callable[[str], NodeDisk],
        nodes: int = 0,
    ) -> None:
        super().__init__(clock, nodes, armed, build_disk)
        self._slurm = slurm
        self.job = 0
        #: the processes that are the run's own: other Slurms of this host have jobs of one number
        self.list_own_processes: Callable[[], Sequence[psutil.Process]] = lambda: ()
        self.sent_signals: set[int] = set()  # the signals that a fault has had Slurm send

    def learn_group(self, group: Mapping[int, Target]) -> None:
        super().learn_group(group)
        with self._lock:
            names = {worker.node_id for worker in group.values()}
            self._joined += sorted(names.difference(self._joined))

    def find_first_pid(self, node_id: str) -> int:
        raise RefusedError(f"{node_id} is a node of {FOREIGN_SLURM}")

    def mark_faulted(self, node_id: str) -> None:
        """Note nothing: Slurm decides what a lost node's exit codes mean."""

    def workers_outlive_driver(self) -> bool:
        return True

    def queue(self) -> Self:
        return self

    def _mark_all_signalled(self) -> None:
        """Note that Slurm ends all workers because of a fault."""
        self.signalled.update(worker.pid for worker in self.list_targets().values())

    # -- asked as the queue of the job ----------------------------------------------------------

    def requeue(self, *, is_held: bool) -> None:
        self._mark_all_signalled()
        self._slurm.control("requeuehold" if is_held else "requeue", self.job)

    def release(self) -> None:
        self._slurm.control("release", self.job)

    def fail_prolog(self) -> None:
        raise RefusedError(f"the prolog of {FOREIGN_SLURM} is its operator's")

    def wait_for_drain(self, *, within_s: float) -> str | None:
        raise AssertionError(within_s)  # refused in `fail_prolog`

    def repair(self, node: str) -> None:
        raise AssertionError(node)  # likewise

    def suspend(self) -> None:
        raise RefusedError(f"only an operator suspends a job of {FOREIGN_SLURM}")

    def resume(self) -> None:
        raise AssertionError  # refused in `suspend`

    def signal(self, name: str, *, to_batch: bool, within_s: float) -> bool:
        number = signal.Signals[f"SIG{name}"]
        self.sent_signals.add(number)
        target_pids = [worker.pid for worker in self.list_targets().values()]
        if to_batch:
            target_pids = [
                process.pid for process in self.list_own_processes() if _is_batch_shell(process)
            ]
        with self._pause_processes(target_pids):
            running_pids = [
                *filter(is_running, target_pids)
            ]  # one that has ended before has got nothing
            self._slurm.signal(self.job, name, to_batch=to_batch)
            is_received = self._await_even_after_run(
                lambda: all(_has_received(pid, number) for pid in running_pids), within_s
            )
        return bool(running_pids) and is_received

    @contextlib.contextmanager
    def _pause_processes(self, pids: Sequence[int]) -> Iterator[None]:
        """Stop processes, so that a signal that comes to them is seen, and continue them."""
        # A signal leaves no trace in a process that handles it. One that is stopped keeps it
        # pending, or ends of it where it has no handler.
        running = [pid for pid in pids if not is_stopped(pid)]  # another fault may hold the rest
        _signal(running, signal.SIGSTOP)
        self._await_even_after_run(lambda: all(map(is_stopped, running)), STILL_S)
        try:
            yield
        finally:
            _signal(running, signal.SIGCONT)

    def reach_time_limit(self, *, within_s: float) -> bool:
        del within_s
        raise RefusedError(f"the time limits of {FOREIGN_SLURM} are its operator's")

    def stop_daemon(self) -> int:
        raise RefusedError(f"the controller of {FOREIGN_SLURM} serves others")

    def start_daemon(self, *, within_s: float) -> int | None:
        raise AssertionError(within_s)  # refused in `stop_daemon`


class LocalSlurmWorld(SlurmWorld):
    """The nodes and workers of one run on a local Slurm, and the queue of its job.

    Slurm is never told what chaos did: it finds out.
    """

    def __init__(
        self,
        clock: Clock,
        cluster: SlurmCluster,
        armed: ArmedFaults,
        build_disk: Callable[[str], NodeDisk],
    ) -> None:
        super().__init__(clock, cluster, armed, build_disk, cluster.nodes)
        self._cluster = cluster
        self._preempted: dict[str, int] = {}  # nodes, each with the job's restarts until then

    def learn_group(self, group: Mapping[int, Target]) -> None:
        super().learn_group(group)
        self._preempted.clear()

    def find_first_pid(self, node_id: str) -> int:
        return self._cluster.find_pid(node_id)

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        """Submit a job of higher priority for a node; `notice_s` is the partition's GraceTime."""
        with self._lock:
            if node_id not in self._live:
                raise ProcessLookupError(f"{node_id} is lost already")
        self._preempted[node_id] = self._cluster.count_restarts(self.job)
        self._mark_all_signalled()
        grace_s = max(0, round(notice_s))
        self._cluster.preempt(node_id, grace_s=grace_s, for_s=TAKES_S)
        # The worker stays at the place of the fault until Slurm has acted.
        is_preempted = self._await_even_after_run(lambda: self._is_preempted(node_id), ACTS_S)
        if not grace_s and is_preempted:
            self._await_even_after_run(lambda: self._has_left(node_id), ACTS_S)
        return self._clock.now_ns() + int(notice_s * 1e9)

    def _is_preempted(self, node_id: str) -> bool:
        state = self._cluster.job(self.job)
        return (state is not None and state.is_preempted) or self._has_left(node_id)

    def _has_left(self, node_id: str) -> bool:
        """Return whether Slurm has taken the job from the nodes that it was preempted on."""
        state = self._cluster.job(self.job)
        if state is None:
            return False
        return not state.has_nodes or state.restarts > self._preempted[node_id]

    def lose_node(
        self, node_id: str, *, raylet_only: bool = False, unsynced: bool = False
    ) -> Sequence[str]:
        """Kill everything on a node at once; one that is preempted is taken by Slurm itself."""
        if node_id in self._preempted:
            return ()
        return super().lose_node(node_id, raylet_only=raylet_only, unsynced=unsynced)

    def await_node_death(self, node_id: str, *, within_s: float) -> bool:
        """Return whether Slurm counts a node as down, or has taken the job from it."""
        if node_id in self._preempted:
            return self._await_even_after_run(lambda: self._has_left(node_id), within_s)
        return self._await_even_after_run(lambda: self._cluster.is_down(node_id), within_s)

    def add_nodes(self, count: int, *, within_s: float) -> list[str]:
        """Start the daemons of further nodes; return those that are idle in time."""
        with self._lock:
            node_count = len(self._joined)
            if node_count + count > self._cluster.nodes + SPARES:
                raise RefusedError(f"a local Slurm has {SPARES} nodes to add at most")
            added_nodes = [f"node-{node_count + number}" for number in range(count)]
            self._joined += added_nodes
            self._live += added_nodes
        for node in added_nodes:
            self._cluster.start_node(node)
        self._await_even_after_run(
            lambda: self._cluster.find_idle_nodes().issuperset(added_nodes), within_s
        )
        idle = self._cluster.find_idle_nodes()
        return [node for node in added_nodes if node in idle]

    def find_root_pids(self, node_id: str) -> list[int]:
        return [self.find_first_pid(node_id), *self._find_step_pids(node_id)]

    def _find_step_pids(self, node_id: str) -> list[int]:
        """Return the pids of a node's steps: they hold the log of its daemon open."""
        log = os.path.realpath(self._cluster.find_log(node_id))
        return [process.pid for process in psutil.process_iter() if _is_step(process, log)]

    # -- asked as the queue of the job ----------------------------------------------------------

    def fail_prolog(self) -> None:
        self._cluster.fail_prolog()

    def wait_for_drain(self, *, within_s: float) -> str | None:
        def is_held() -> bool:
            state = self._cluster.job(self.job)
            return state is not None and state.state == "PENDING" and not state.waits

        self._await_even_after_run(
            lambda: is_held() and self._cluster.find_drained_node() is not None, within_s
        )
        return self._cluster.find_drained_node() if is_held() else None

    def repair(self, node: str) -> None:
        self._cluster.repair(node)

    def suspend(self) -> None:
        self._cluster.control("suspend", self.job)

    def resume(self) -> None:
        self._cluster.control("resume", self.job)

    def reach_time_limit(self, *, within_s: float) -> bool:
        self._cluster.limit_time(self.job)
        self._mark_all_signalled()
        return self._await_even_after_run(self._is_ending, within_s)

    def _is_ending(self) -> bool:
        state = self._cluster.job(self.job)
        return state is not None and state.state != "RUNNING"

    def stop_daemon(self) -> int:
        return self._cluster.stop_controller()

    def start_daemon(self, *, within_s: float) -> int | None:
        return self._cluster.start_controller(within_s=within_s)


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it may end at any time
            os.kill(pid, number)


def _is_batch_shell(process: psutil.Process) -> bool:
    """Return whether a process is the first one of the step that has no number."""
    with contextlib.suppress(psutil.Error):
        parent = process.parent()
        is_first = parent is not None and parent.name() == STEP
        return is_first and "SLURM_STEP_ID" not in process.environ()
    return False


def _has_received(pid: int, number: int) -> bool:
    """Return whether a process that is stopped has a signal pending, or has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        pending = int(status.partition("ShdPnd:")[2].split()[0], 16)
        return bool(pending >> (number - 1) & 1) or not is_running(pid)
    return True


def _is_step(process: psutil.Process, log: str) -> bool:
    try:
        return process.name() == STEP and any(file.path == log for file in process.open_files())
    except psutil.Error:
        return False
