"""Faults on the nodes of a local Slurm: a node is a slurmd, its steps, and what they started."""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import psutil

from chaos.faults.world import RefusedError, Target
from chaos.launch.commands.world import MachineWorld
from chaos.launch.node_disk import NodeDisk
from chaos.launch.slurm.cluster import SPARES, SlurmCluster
from chaos.run.armed import ArmedFaults
from chaos.run.clock import Clock

TAKES_S = 1.0  # for which a job of higher priority has the node
ACTS_S = 10.0  # until Slurm acts on what it was asked
STEP = "slurmstepd"  # the process of a step on a node, which is no child of its slurmd


class SlurmWorld(MachineWorld):
    """The nodes and workers of one run, and the queue of its job.

    Slurm is never told what chaos did: it finds out.
    """

    def __init__(
        self,
        clock: Clock,
        cluster: SlurmCluster,
        armed: ArmedFaults,
        disk_of: Callable[[str], NodeDisk],
    ) -> None:
        super().__init__(clock, cluster.nodes, armed, disk_of)
        self._cluster = cluster
        self._preempted: dict[str, int] = {}  # nodes, each with the job's restarts until then
        self.job = 0
        self.sent: set[int] = set()  # the signals that a fault has had Slurm send

    def learn_group(self, group: Mapping[int, Target]) -> None:
        super().learn_group(group)
        self._preempted.clear()

    def first_of(self, node_id: str) -> int:
        return self._cluster.pid_of(node_id)

    def take(self, node_id: str) -> None:
        """Note nothing: Slurm decides what a lost node's exit codes mean."""

    def workers_outlive_driver(self) -> bool:
        return True

    def queue(self) -> Self:
        return self

    def _ends_all(self) -> None:
        """Note that Slurm ends all workers because of a fault."""
        self.signalled.update(worker.pid for worker in self.group().values())

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

    def requeue(self, *, is_held: bool) -> None:
        self._ends_all()
        self._cluster.control("requeuehold" if is_held else "requeue", self.job)

    def release(self) -> None:
        self._cluster.control("release", self.job)

    def suspend(self) -> None:
        self._cluster.control("suspend", self.job)

    def resume(self) -> None:
        self._cluster.control("resume", self.job)

    def signal(self, name: str, *, to_batch: bool, within_s: float) -> bool:
        number = signal.Signals[f"SIG{name}"]
        nodes = 1 if to_batch else len({worker.node_id for worker in self.group().values()})
        due = nodes + self._cluster.sent(number, to_batch=to_batch)
        self.sent.add(number)
        self._cluster.signal(self.job, name, to_batch=to_batch)
        return self._until(lambda: self._cluster.sent(number, to_batch=to_batch) >= due, within_s)

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


def _is_step(process: psutil.Process, log: str) -> bool:
    try:
        return process.name() == STEP and any(one.path == log for one in process.open_files())
    except psutil.Error:
        return False
