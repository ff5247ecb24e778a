"""Idle processes beside an attempt's workers, for the attempt after it: an option of a run.

The raylets of a local cluster are asked for them as soon as a group of workers
has started, and they do their imports (see `preimport`) while the job trains.
When a fault has ended the group, Ray finds processes that wait. Nothing depends
on them: if they are late or missing, Ray starts others.
"""

import math
import os
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil
import ray

from chaos.faults.world import Target
from chaos.launch.ray import compat
from chaos.model.event import AnyEvent, WorkersPrestarted
from chaos.model.plan import Plan
from chaos.run.clock import Clock
from chaos.run.journal import Journal
from chaos.run.ports import Say

FORE = "--prestart-workers:"
NOTICE = "recoveries are shorter than on a cluster that does no such thing"
ASK_S = 5.0


class PrestartOption:
    """The option of the command line; each message about it is shown once."""

    def __init__(self, report: Say, *, is_wanted: bool) -> None:
        self._report = report
        self._is_wanted = is_wanted
        self._reported = set[str]()

    def serves(self, plan: Plan) -> bool:
        """Return whether a run's workers are prestarted; if not, show the user the reason."""
        if not self._is_wanted or not plan.ops:
            return False  # without faults there is no recovery
        reason = explain_refusal(plan, can_ask=compat.can_prestart(), cores=os.cpu_count() or 1)
        self._report_once(f"{FORE} {NOTICE}" if reason is None else f"{FORE} off, {reason}")
        return reason is None

    def report_errors(self, events: list[AnyEvent]) -> None:
        for event in events:
            if isinstance(event, WorkersPrestarted) and event.error is not None:
                self._report_once(f"{FORE} {event.error}")

    def _report_once(self, message: str) -> None:
        if message not in self._reported:
            self._reported.add(message)
            self._report(message)


def explain_refusal(plan: Plan, *, can_ask: bool, cores: int) -> str | None:
    """Return the reason why a plan's workers are not prestarted; None if they are."""
    if plan.shape.address is not None:
        return "the cluster is not chaos's own"
    if plan.job.trial is not None:
        return "the job's trainers are made by Ray Tune"
    if not can_ask:
        return "grpcio is not installed (the extra `prestart`)"
    if cores <= plan.job.workers:  # measured on two: see docs/notes/0011
        return f"this machine's {cores} core(s) are no more than the job's workers"
    return None


@dataclass
class PrestartPool:
    """The idle processes of one run, in the chaos controller's actor."""

    plan: Plan
    journal: Journal
    clock: Clock
    _job: str = ""
    _idle: Counter[str] = field(default_factory=Counter[str])  # the job's, by node
    _failed_s: float | None = None  # wall clock
    _filling: threading.Thread | None = None

    def failure_decided(self) -> None:
        """Note the time: a worker of the next attempt that is older was one of the idle."""
        self._failed_s = self.clock.wall_ns() / 1e9

    def group_started(self, group: Mapping[int, Target], handle: Any) -> None:
        """Fill the pool for the next attempt; does not wait. `handle`: of one of the workers."""
        # A thread of its own, since a raylet may take seconds to answer and Ray's controller waits
        # for this call. One after another: the next filling counts what the one before has asked
        # for.
        earlier_filling, failed_s = self._filling, self._failed_s
        workers = tuple(group.values())

        def fill() -> None:
            if earlier_filling is not None:
                earlier_filling.join()
            self._fill(workers, handle, failed_s)

        self._filling = threading.Thread(target=fill, name="pool", daemon=True)
        self._filling.start()

    def finish(self) -> None:
        if self._filling is not None:
            self._filling.join(2 * ASK_S)

    def _fill(self, group: Sequence[Target], handle: Any, failed_s: float | None) -> None:
        attempt = group[0].attempt
        taken = [
            worker.node_id
            for worker in group
            if failed_s is not None and _find_start_time(worker.pid) < failed_s
        ]
        prestarted, error = dict[str, int](), None
        try:
            self._subtract_taken(taken, compat.get_job(handle))
            if may_restart(self.plan, attempt):
                prestarted = self._request_workers([target.node_id for target in group], handle)
        except Exception as raised:  # noqa: BLE001 - gRPC's, too, which chaos does not import
            error = " ".join(f"{type(raised).__name__}: {raised}".split())[:300]
        self._idle.update(prestarted)
        self.journal.add(
            WorkersPrestarted(
                attempt=attempt, used_count=len(taken), requested_by_node=prestarted, error=error
            )
        )

    def _subtract_taken(self, taken: Sequence[str], job: str) -> None:
        """Subtract the processes that work now; all of them if the job is of another driver."""
        if job != self._job:
            self._job = job
            self._idle.clear()
        self._idle.subtract(taken)

    def _request_workers(self, group: Sequence[str], handle: Any) -> dict[str, int]:
        raylets, runtime_env = _raylets(), compat.get_runtime_env(handle)
        missing = count_missing(raylets, group, self._idle)
        for node_id, count in missing.items():
            compat.prestart_workers(
                raylets[node_id],
                count,
                job=self._job,
                runtime_env=runtime_env,
                keep_s=self.plan.limits.run_s,
                within_s=ASK_S,
            )
        return missing


def is_waiting(pid: int) -> bool:
    """Return whether a process was started by a raylet and has never had work."""
    try:
        process = psutil.Process(pid)
        parent = process.parent()
        is_idle = compat.is_idle_worker(" ".join(process.cmdline()))
    except psutil.Error:
        return False  # it has ended, or is another user's
    return is_idle and parent is not None and parent.name().startswith("raylet")


def may_restart(plan: Plan, attempt: int) -> bool:
    """Return whether a plan has a fault left that may end this attempt."""
    return attempt < len(plan.ops) or any(op.fault.is_repeated for op in plan.ops)


def count_missing(
    nodes: Collection[str], group: Sequence[str], idle: Mapping[str, int]
) -> dict[str, int]:
    """Return the number of processes to ask each node for.

    `group` names the node of each worker. Ray places the next attempt's workers, so any
    node may get as many as the fullest has now. `idle`: those that wait already.
    """
    node_max = max(Counter(group).values(), default=0)
    missing = {node: node_max - idle.get(node, 0) for node in nodes}
    return {node: count for node, count in missing.items() if count > 0}


def _find_start_time(pid: int) -> float:
    """Return the start of a process (wall clock, s); infinity for one that has ended."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return math.inf


def _raylets() -> dict[str, str]:
    """Return the address of each raylet that may get workers, by node."""
    draining = compat.draining_nodes()
    return {
        row["NodeID"]: f"{row['NodeManagerAddress']}:{row['NodeManagerPort']}"
        for row in ray.nodes()
        if row["Alive"] and not compat.is_head(row) and row["NodeID"] not in draining
    }
