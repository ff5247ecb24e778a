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

from chaos.faults.world import RefusedError, Target
from chaos.launch.commands.world import MachineWorld
from chaos.launch.node_disk import NodeDisk
from chaos.launch.slurm.client import Slurm
from chaos.launch.slurm.cluster import SPARES, SlurmCluster
from chaos.processes.tree import is_running, stands_still
from chaos.run.armed import ArmedFaults
from chaos.run.clock import Clock

TAKES_S = 1.0  # for which a job of higher priority has the node
ACTS_S = 10.0  # until Slurm acts on what it was asked
STILL_S = 1.0  # until a process that was sent SIGSTOP stands still
STEP = "slurmstepd"  # the process of a step on a node, which is no child of its slurmd
OTHERS = "a Slurm that chaos did not start"


class SlurmWorld(MachineWorld):
    """The workers of one run, and the queue of its job; no node is chaos's to touch."""

    def __init__(
        self,
        clock: Clock,
        slurm: Slurm,
        armed: ArmedFaults,
        disk_of: Callable[[str], NodeDisk],
        nodes: int = 0,
    ) -> None:
        super().__init__(clock, nodes, armed, disk_of)
        self._slurm = slurm
        self.job = 0
        #: the processes that are the run's own: other Slurms of this host have jobs of one number
        self.own: Callable[[], Sequence[psutil.Process]] = lambda: ()
        self.sent: set[int] = set()  # the signals that a fault has had Slurm send

    def learn_group(self, group: Mapping[int, Target]) -> None:
        super().learn_group(group)
        with self._lock:
            names = {worker.node_id for worker in group.values()}
            self._joined += sorted(names.difference(self._joined))

    def first_of(self, node_id: str) -> int:
        raise RefusedError(f"{node_id} is a node of {OTHERS}")

    def take(self, node_id: str) -> None:
        """Note nothing: Slurm decides what a lost node's exit codes mean."""

    def workers_outlive_driver(self) -> bool:
        return True

    def queue(self) -> Self:
        return self

    def _ends_all(self) -> None:
        """Note that Slurm ends all workers because of a fault."""
        self.signalled.update(worker.pid for worker in self.group().values())

    # -- asked as the queue of the job ----------------------------------------------------------

    def requeue(self, *, is_held: bool) -> None:
        self._ends_all()
        self._slurm.control("requeuehold" if is_held else "requeue", self.job)

    def release(self) -> None:
        self._slurm.control("release", self.job)

    def fail_prolog(self) -> None:
        raise RefusedError(f"the prolog of {OTHERS} is its operator's")

    def drained(self, *, within_s: float) -> str | None:
        raise AssertionError(within_s)  # refused in `fail_prolog`

    def repair(self, node: str) -> None:
        raise AssertionError(node)  # likewise

    def suspend(self) -> None:
        raise RefusedError(f"only an operator suspends a job of {OTHERS}")

    def resume(self) -> None:
        raise AssertionError  # refused in `suspend`

    def signal(self, name: str, *, to_batch: bool, within_s: float) -> bool:
        number = signal.Signals[f"SIG{name}"]
        self.sent.add(number)
        whom = [worker.pid for worker in self.group().values()]
        if to_batch:
            whom = [process.pid for process in self.own() if _is_batch_shell(process)]
        with self._stopped_for_a_look(whom):
            there = [*filter(is_running, whom)]  # one that has ended before has got nothing
            self._slurm.signal(self.job, name, to_batch=to_batch)
            have_got = self._until(lambda: all(_has_got(pid, number) for pid in there), within_s)
        return bool(there) and have_got

    @contextlib.contextmanager
    def _stopped_for_a_look(self, pids: Sequence[int]) -> Iterator[None]:
        """Stop processes, so that a signal that comes to them is seen, and continue them."""
        # A signal leaves no trace in a process that handles it. One that is stopped keeps it
        # pending, or ends of it where it has no handler.
        moving = [pid for pid in pids if not stands_still(pid)]  # another fault may hold the rest
        _signal(moving, signal.SIGSTOP)
        self._until(lambda: all(map(stands_still, moving)), STILL_S)
        try:
            yield
        finally:
            _signal(moving, signal.SIGCONT)

    def time_out(self, *, within_s: float) -> bool:
        del within_s
        raise RefusedError(f"the time limits of {OTHERS} are its operator's")

    def stop(self) -> int:
        raise RefusedError(f"the controller of {OTHERS} serves others")

    def start(self, *, within_s: float) -> int | None:
        raise AssertionError(within_s)  # refused in `stop`


class LocalSlurmWorld(SlurmWorld):
    """The nodes and workers of one run on a local Slurm, and the queue of its job.

    Slurm is never told what chaos did: it finds out.
    """

    def __init__(
        self,
        clock: Clock,
        cluster: SlurmCluster,
        armed: ArmedFaults,
        disk_of: Callable[[str], NodeDisk],
    ) -> None:
        super().__init__(clock, cluster, armed, disk_of, cluster.nodes)
        self._cluster = cluster
        self._preempted: dict[str, int] = {}  # nodes, each with the job's restarts until then

    def learn_group(self, group: Mapping[int, Target]) -> None:
        super().learn_group(group)
        self._preempted.clear()

    def first_of(self, node_id: str) -> int:
        return self._cluster.pid_of(node_id)

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        """Submit a job of higher priority for a node; `notice_s` is the partition's GraceTime."""
        with self._lock:
            if node_id not in self._live:
                raise ProcessLookupError(f"{node_id} is lost already")
        self._preempted[node_id] = self._cluster.restarts_of(self.job)
        self._ends_all()
        grace_s = max(0, round(notice_s))
        self._cluster.preempt(node_id, grace_s=grace_s, for_s=TAKES_S)
        # The worker stays at the place of the fault until Slurm has acted.
        is_preempted = self._until(lambda: self._is_preempted(node_id), ACTS_S)
        if not grace_s and is_preempted:
            self._until(lambda: self._is_off(node_id), ACTS_S)
        return self._clock.now_ns() + int(notice_s * 1e9)

    def _is_preempted(self, node_id: str) -> bool:
        seen = self._cluster.job(self.job)
        return (seen is not None and seen.is_preempted) or self._is_off(node_id)

    def _is_off(self, node_id: str) -> bool:
        """Return whether Slurm has taken the job from the nodes that it was preempted on."""
        seen = self._cluster.job(self.job)
        if seen is None:
            return False
        return not seen.has_nodes or seen.restarts > self._preempted[node_id]

    def lose_node(
        self, node_id: str, *, raylet_only: bool = False, unsynced: bool = False
    ) -> Sequence[str]:
        """Kill everything on a node at once; one that is preempted is taken by Slurm itself."""
        if node_id in self._preempted:
            return ()
        return super().lose_node(node_id, raylet_only=raylet_only, unsynced=unsynced)

    def node_is_dead(self, node_id: str, *, within_s: float) -> bool:
        """Return whether Slurm counts a node as down, or has taken the job from it."""
        if node_id in self._preempted:
            return self._until(lambda: self._is_off(node_id), within_s)
        return self._until(lambda: self._cluster.is_down(node_id), within_s)

    def add_nodes(self, count: int, *, within_s: float) -> list[str]:
        """Start the daemons of further nodes; return those that are idle in time."""
        with self._lock:
            known = len(self._joined)
            if known + count > self._cluster.nodes + SPARES:
                raise RefusedError(f"a local Slurm has {SPARES} nodes to add at most")
            fresh = [f"node-{known + number}" for number in range(count)]
            self._joined += fresh
            self._live += fresh
        for node in fresh:
            self._cluster.start_node(node)
        self._until(lambda: self._cluster.idle().issuperset(fresh), within_s)
        idle = self._cluster.idle()
        return [node for node in fresh if node in idle]

    def roots_of(self, node_id: str) -> list[int]:
        return [self.first_of(node_id), *self._steps(node_id)]

    def _steps(self, node_id: str) -> list[int]:
        """Return the pids of a node's steps: they hold the log of its daemon open."""
        log = os.path.realpath(self._cluster.log_of(node_id))
        return [p.pid for p in psutil.process_iter() if _is_step(p, log)]

    # -- asked as the queue of the job ----------------------------------------------------------

    def fail_prolog(self) -> None:
        self._cluster.fail_prolog()

    def drained(self, *, within_s: float) -> str | None:
        def is_held() -> bool:
            seen = self._cluster.job(self.job)
            return seen is not None and seen.state == "PENDING" and not seen.waits

        self._until(lambda: is_held() and self._cluster.drained() is not None, within_s)
        return self._cluster.drained() if is_held() else None

    def repair(self, node: str) -> None:
        self._cluster.repair(node)

    def suspend(self) -> None:
        self._cluster.control("suspend", self.job)

    def resume(self) -> None:
        self._cluster.control("resume", self.job)

    def time_out(self, *, within_s: float) -> bool:
        self._cluster.limit_time(self.job)
        self._ends_all()
        return self._until(self._is_ending, within_s)

    def _is_ending(self) -> bool:
        seen = self._cluster.job(self.job)
        return seen is not None and seen.state != "RUNNING"

    def stop(self) -> int:
        return self._cluster.stop_controller()

    def start(self, *, within_s: float) -> int | None:
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


def _has_got(pid: int, number: int) -> bool:
    """Return whether a process that is stopped has a signal pending, or has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        pending = int(status.partition("ShdPnd:")[2].split()[0], 16)
        return bool(pending >> (number - 1) & 1) or not is_running(pid)
    return True


def _is_step(process: psutil.Process, log: str) -> bool:
    try:
        return process.name() == STEP and any(one.path == log for one in process.open_files())
    except psutil.Error:
        return False
