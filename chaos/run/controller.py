"""The chaos controller, which holds workers at gates and injects faults when an op is due.

It is in one process per run, beside the job. Every call may come from another
thread. It decides by the events that it has recorded itself. The order for one op:

    worker                      controller                    thread of the op
    arrive() --- op is due ---> FaultInvoked, Gate made ----> fault.inject(...)
      waits at the gate                                         may release the gate early
      continues, or dies   <--- Gate opened <---------------- FaultEnded, then heal
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from chaos.faults.base import Fault
from chaos.faults.order import Order
from chaos.faults.world import HealableFault, Outcome, RefusedError, Target, WorkerRelease, World
from chaos.model.event import (
    Committed,
    FaultEnded,
    FaultHealed,
    FaultInvoked,
    NoticeGiven,
    ObserverFailed,
    StorageSeen,
)
from chaos.model.event import GateReleased as Released
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtTime
from chaos.plan.op_state import count_needed_commits, holds_polls, is_in_launch
from chaos.run.gates import Gate, PollBarrier, RecordedEvents, WorkerRegistry
from chaos.run.journal import Journal

# Longer than any fault takes: a worker is held no longer, whatever became of its thread.
INJECTION_LIMIT_S = 900.0
JOIN_POLLS, JOIN_POLL_S = 300, 0.1  # for a node that has not joined yet
NO_PID = 0  # the pid of no process


class ChaosController:
    """Gates, faults and their record, over a `World` that a backend provides.

    `capture_storage` returns the content of the run's storage after an op's fault, before the held
    rank continues. If training continues before the fault ends, as after a notice, storage
    is looked at before the fault: later it may be in the middle of a change.
    `has_trained` returns whether an attempt has finished a step.
    """

    def __init__(
        self,
        plan: Plan,
        world: World,
        journal: Journal,
        *,
        capture_storage: Callable[[int], StorageSeen | None] = lambda _: None,
        has_trained: Callable[[int], bool] = lambda _: True,
    ) -> None:
        self._plan = plan
        self._has_commits = plan.job.launcher_facts.has_reports
        self._world = world
        self._journal = journal
        self._capture_storage = capture_storage
        self._has_trained = has_trained
        self._changed = threading.Condition()
        self._recorded = RecordedEvents(journal)
        self._workers = WorkerRegistry()
        self._orders: dict[tuple[int, int], Order] = {}
        self._threads: list[threading.Thread] = []
        self._ended = False
        self._barrier = PollBarrier(self._changed, self._has_ended)

    # -- called by the observer ------------------------------------------------------------

    def group_started(self, workers: Mapping[int, Target]) -> None:
        """Set the worker of each rank; the first group starts the clock of timed ops."""
        with self._changed:
            is_first = self._workers.set_group(workers)
            self._changed.notify_all()
        timed = [op for op in self._plan.ops if is_first and isinstance(op.at, AtTime)]
        for op in timed:
            threading.Thread(target=self._inject_at_time, args=(op,), daemon=True).start()

    def group_launched(self, attempt: int) -> None:
        """Note that every rank of an attempt has begun its train function."""
        with self._changed:
            self._workers.record_launch(attempt)
            self._changed.notify_all()

    def resumed(self, attempt: int, epoch: int) -> None:
        """Note the epoch at which an attempt goes on by a save of the job's own."""
        with self._changed:
            self._workers.record_resume(attempt, epoch)
            self._changed.notify_all()

    def committed(self, event: Committed) -> None:
        with self._changed:
            self._recorded.learn(event)
            self._changed.notify_all()

    def may_poll(self) -> None:
        """Hold Ray's controller between two polls while an op needs a report uncommitted.

        Returns at once unless a rank waits in `await_hold`; otherwise after the
        fault of that op.
        """
        with self._changed:
            self._barrier.hold_polls(within_s=2 * self._plan.limits.gate_s)

    def enter_state(self, index: int) -> None:
        """Hold Ray's controller in the state that it has entered, while a fault is injected."""
        gate = self._begin_without_arrival(self._plan.ops[index])
        if gate is not None:
            gate.wait(INJECTION_LIMIT_S)

    # -- called by a worker ----------------------------------------------------------------

    def await_hold(self, index: int) -> bool:
        """Wait until Ray's controller is held, so that a report that returns stays uncommitted.

        Returns False if the op is spent, or the hold did not come within the gate's limit.
        """
        op = self._plan.ops[index]
        with self._changed:
            if self._recorded.is_spent(op, self._workers.attempt):
                return False
            attempt = self._workers.attempt
            self._changed.wait_for(
                lambda: self._ended or self._has_needed_commits(op, attempt),
                timeout=self._plan.limits.gate_s,
            )
            if self._ended or not self._has_needed_commits(op, attempt):
                return False
            return self._barrier.request_hold(index, within_s=self._plan.limits.gate_s)

    def arrive(self, index: int, target: Target) -> Order | None:
        """Hold a worker at an op's place until the fault releases or kills it.

        Returns the order that the worker is to carry out on itself, if the fault has one.
        """
        op = self._plan.ops[index]
        # The condition is held from the first question to `_begin_injection`, but each wait in
        # between lets it go, and others in: another rank at this place, the next attempt's group,
        # commits, the run's end. So what was asked before a wait is asked again after it.
        # `_begin_injection` records FaultInvoked before the condition is let go: of two arrivals
        # the second finds the op spent.
        with self._changed:
            if target.rank != op.at.rank:
                return self._await_shared_order(op, target)
            spent = self._recorded.is_spent(op, target.attempt)
            if self._ended or spent or not self._recorded.may_begin(op, target.attempt):
                return None
            self._recorded.record_arrival(op, target)
            missing = self._find_missing_condition(op, target)
            # Asked before `missing`: a worker that is held here may be killed by another op, and
            # its rank comes to the place again in the next attempt. The wait of the dead one then
            # ends without its conditions; to give the op up for that would spend it before the
            # arrival that can be served.
            if self._is_obsolete(target) or self._recorded.is_spent(op, target.attempt):
                return None
            if missing is not None:
                self._abandon_op(op, missing)
                return None
            gate = self._begin_injection(op, target)
        # Outside of the condition: the op's thread takes it to record the outcome, and then only
        # opens the gate.
        return gate.wait(INJECTION_LIMIT_S)

    # -- called by the harness -------------------------------------------------------------

    def finish(self, *, within_s: float) -> None:
        """End all waits, and wait for faults that are being injected; each opens its gate."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join(within_s)

    # -- inside ----------------------------------------------------------------------------

    def _await_shared_order(self, op: Op, target: Target) -> Order | None:
        """Return the order of an op for all ranks, once the op's own rank has arrived."""
        # Any rank may come first, so the others wait here as the op's own rank waits in `arrive`,
        # and end with it: `is_spent` is also true of an op that was given up, which has no order.
        key = op.index, target.attempt
        recorded = self._recorded
        self._changed.wait_for(
            lambda: self._ended or key in self._orders or recorded.is_spent(op, target.attempt),
            timeout=self._plan.limits.gate_s,
        )
        # An op is spent from FaultInvoked on, and its order is known only when the thread of the
        # fault calls `release`. A rank that arrives in between would train on without the order.
        if key not in self._orders and recorded.has_fault(op, target.attempt):
            self._changed.wait_for(lambda: self._ended or key in self._orders, timeout=1.0)
        return self._orders.get(key)

    def _find_missing_condition(self, op: Op, target: Target) -> str | None:
        """Wait for the conditions of an op; return the one that did not come in time, or None.

        Every rank must have begun its train function, unless the op's place is the
        launch itself (see `WorkerRegistry`).
        """
        attempt = target.attempt
        is_ready = self._workers.knows_attempt if is_in_launch(op) else self._workers.has_launched
        if not self._await_condition(lambda: is_ready(attempt), target):
            return f"attempt {attempt} was not launched on every rank"
        if not self._await_condition(lambda: self._has_needed_commits(op, attempt), target):
            return f"the commit of epoch {count_needed_commits(op) - 1} did not come"
        if holds_polls(op) and not self._barrier.has_hold(op.index):
            return "Ray's controller could not be held before its commit"
        return None

    def _has_needed_commits(self, op: Op, attempt: int) -> bool:
        """Return whether the epochs before an op's place are committed.

        Of epochs that an attempt has passed over by a save of the job's own none will be: a rank
        that was killed after its report, and before Ray's commit, goes on after that epoch.
        """
        needed = count_needed_commits(op)
        is_passed = needed <= self._workers.find_resume_epoch(attempt)
        return not self._has_commits or is_passed or self._recorded.commits >= needed

    def _await_condition(self, is_met: Callable[[], bool], target: Target) -> bool:
        return self._changed.wait_for(
            lambda: self._is_obsolete(target) or is_met(), timeout=self._plan.limits.gate_s
        )

    def _is_obsolete(self, target: Target) -> bool:
        """Return whether the run or the worker's attempt is over.

        A held worker may be killed for another reason, and its rank arrives in the next attempt.
        """
        return self._ended or self._workers.attempt > target.attempt

    def _abandon_op(self, op: Op, reason: str) -> None:
        self._barrier.release_hold(op.index)
        limit = f"within {self._plan.limits.gate_s:g} s while the rank was held"
        self._recorded.add(FaultEnded(op=op.index, status="fail", detail=f"{reason} {limit}"))
        self._changed.notify_all()

    def _has_ended(self) -> bool:
        return self._ended

    def _inject_at_time(self, op: Op) -> None:
        assert isinstance(op.at, AtTime)
        with self._changed:
            self._changed.wait_for(self._has_ended, timeout=op.at.seconds)
            # A moment by the clock may fall into a launch, in which the death of a worker makes Ray
            # 2.60's controller fail with any job (see `WorkerRegistry`): it waits for the end of
            # it. What happens to a node by its number, or adds nodes, keeps to its moment.
            if op.node is None and op.fault.nodes_added <= 0:
                self._changed.wait_for(
                    lambda: self._ended or self._workers.has_launched(self._workers.attempt),
                    timeout=self._plan.limits.gate_s,
                )
        self._begin_without_arrival(op)

    def _begin_without_arrival(self, op: Op) -> Gate | None:
        """Begin an op that holds no worker, on the present worker of its rank or node."""
        node_id = "" if op.node is None else self._await_node(op.node)
        with self._changed:
            rank, attempt = op.at.rank or 0, self._workers.attempt
            placeholder = Target(attempt=attempt, rank=rank, pid=NO_PID, node_id=node_id)
            holder = (
                self._workers.find_holder(rank)
                if op.node is None
                else self._find_node_worker(node_id, op)
            )
            target = holder or placeholder
            if self._ended or self._recorded.is_spent(op, target.attempt):
                return None
            self._recorded.record_arrival(op, target)
            return self._begin_injection(op, target)

    def _await_node(self, number: int) -> str:
        """Return the id of a node by its number, once it has joined; empty if it does not."""
        for _ in range(JOIN_POLLS):
            nodes = self._world.list_worker_nodes()
            if number < len(nodes):
                return nodes[number]
            with self._changed:
                self._changed.wait_for(self._has_ended, timeout=JOIN_POLL_S)
        return ""

    def _find_node_worker(self, node_id: str, op: Op) -> Target | None:
        """Return the worker on a node; None for a fault of a worker before its first step."""
        target = self._workers.find_node_worker(node_id)
        if target is None or op.fault.lost_node_count or self._has_trained(target.attempt):
            return target
        return None

    def _begin_injection(self, op: Op, arrived: Target) -> Gate:
        rank = arrived.rank if op.fault_rank is None else op.fault_rank
        target = arrived if rank == arrived.rank else self._workers.find_holder(rank)
        is_node = bool(op.fault.lost_node_count and arrived.node_id)
        if arrived.pid == NO_PID and op.fault.needs_worker and not is_node:
            target = None
        gate = Gate()
        recorded_target = target or replace(arrived, rank=rank, pid=0, node_id="")
        self._recorded.add(
            FaultInvoked(
                op=op.index,
                fault=str(op.fault),
                attempt=recorded_target.attempt,
                rank=recorded_target.rank,
                pid=recorded_target.pid,
                node_id=recorded_target.node_id,
            )
        )
        thread = threading.Thread(
            target=self._inject, args=(op, target, arrived, gate), name=f"op-{op.index}"
        )
        self._threads.append(thread)
        thread.start()
        return gate

    def _inject(self, op: Op, target: Target | None, arrived: Target, gate: Gate) -> None:
        def release(deadline_ns: int | None = None, *, order: Order | None = None) -> None:
            if deadline_ns is not None and target is not None:
                notice = NoticeGiven(op=op.index, node_id=target.node_id, deadline_ns=deadline_ns)
                self._journal.add(notice)
            # The fault may release early, and the end of the injection releases again.
            if gate.is_open:
                return
            # Recorded before the gate opens: what the worker does next comes after it in time.
            self._journal.add(Released(op=op.index, attempt=arrived.attempt, rank=arrived.rank))
            gate.open(order)
            with self._changed:  # a notice, for one, must reach a controller that polls
                if order is not None and op.fault.orders_all_ranks:
                    self._orders[op.index, arrived.attempt] = order
                self._barrier.release_hold(op.index)

        # Storage is looked at while the rank is held: before the fault, where training goes on
        # during it and could be in the middle of a save, else after it, to see what it has done.
        if op.fault.releases_worker_itself:
            self._record_storage(op)
        outcome = self._execute_fault(op, target, release)
        if not op.fault.releases_worker_itself:
            self._record_storage(op)
        with self._changed:
            self._recorded.add(
                FaultEnded(
                    op=op.index,
                    status=outcome.status,
                    detail=outcome.detail,
                    signal_sent=outcome.signal_sent,
                    emptied_files=outcome.emptied_files,
                )
            )
            # Another rank that asked for a hold in this attempt may be dead, and never arrive.
            self._barrier.release_all()
        release()
        if outcome.status == "ok" and target is not None:
            self._heal(op, target)

    def _heal(self, op: Op, target: Target) -> None:
        if not isinstance(op.fault, HealableFault):
            return
        try:
            detail = op.fault.heal(self._world, target)
        except Exception as error:  # noqa: BLE001 - its node may be gone, and the process with it
            detail = f"not undone: {type(error).__name__}: {error}"
        self._journal.add(FaultHealed(op=op.index, detail=detail))

    def _record_storage(self, op: Op) -> None:
        try:
            contents = self._capture_storage(op.index)
        except OSError as error:  # recorded; the fault is injected nevertheless
            operation = f"looking at storage, op {op.index}"
            self._journal.add(ObserverFailed(where=operation, error=f"{error}"))
        else:
            if contents is not None:
                self._journal.add(contents)

    def _execute_fault(self, op: Op, target: Target | None, release: WorkerRelease) -> Outcome:
        if target is None:
            return Outcome("fail", f"no worker holds rank {op.target_rank}")
        return inject_fault(op.fault, self._world, replace(target, op=op.index), release)


def inject_fault(fault: Fault, world: World, target: Target, release: WorkerRelease) -> Outcome:
    """Inject a fault, and return its outcome; an error is an outcome, too."""
    try:
        return fault.inject(world, target, release)
    except RefusedError as error:
        return Outcome("fail", f"refused: {error}")
    except ProcessLookupError as error:
        return Outcome("fail", f"the target was already gone: {error}")
    except Exception as error:  # noqa: BLE001 - after any other error, the effect is uncertain
        return Outcome("info", f"{type(error).__name__}: {error}")
