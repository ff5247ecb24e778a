"""The chaos controller: holds workers at gates and strikes when an op is due.

It runs in one process per run, beside the job. Every call may come from a
thread of its own; what it decides, it reads from its own record.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from chaos.faults.order import Order
from chaos.faults.world import Outcome, Release, Victim, World
from chaos.model.event import (
    AnyEvent,
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
from chaos.model.trigger import AtRecovery, AtTime
from chaos.plan.due import commits_before, due_ops, holds_polls, is_recovering, is_spent
from chaos.run.deed import carried_out, healed
from chaos.run.gate import Gate, gate_reached
from chaos.run.holds import Holds
from chaos.run.journal import Journal
from chaos.run.worker_group import NOBODY, WorkerGroup

STRIKE_LIMIT_S = 900.0


class ChaosController:
    """Gates, strikes and their record, over a `World` that a backend provides.

    `look` gives what the run's storage holds once an op has struck, before the
    rank that was held for it goes on. Where training goes on first, as after a
    notice, storage is looked at before: later it may be in the midst of a change.
    """

    def __init__(
        self,
        plan: Plan,
        world: World,
        journal: Journal,
        *,
        look: Callable[[int], StorageSeen | None] = lambda _: None,
    ) -> None:
        self._plan = plan
        self._world = world
        self._journal = journal
        self._look = look
        self._changed = threading.Condition()
        self._recorded: list[AnyEvent] = []
        self._group = WorkerGroup()
        self._orders: dict[tuple[int, int], Order] = {}
        self._strikes: list[threading.Thread] = []
        self._over = False
        self._holds = Holds(self._changed, self._is_over)

    # -- told by the observer --------------------------------------------------------------

    def group_started(self, workers: Mapping[int, Victim]) -> None:
        """Learn which process holds each rank now."""
        with self._changed:
            is_first = self._group.start(workers)
            self._changed.notify_all()
        timed = [op for op in self._plan.ops if is_first and isinstance(op.at, AtTime)]
        for op in timed:
            threading.Thread(target=self._strike_in_time, args=(op,), daemon=True).start()

    def group_launched(self, attempt: int) -> None:
        """Learn that the train function runs on every rank of an attempt."""
        with self._changed:
            self._group.launch(attempt)
            self._changed.notify_all()

    def committed(self, event: Committed) -> None:
        """Learn that a report is committed."""
        with self._changed:
            self._recorded.append(event)
            self._changed.notify_all()

    def may_poll(self) -> None:
        """Hold Ray's controller between two polls while an op needs a report uncommitted.

        Returns at once unless a rank waits in `await_hold`; then once that
        op's strike is over.
        """
        with self._changed:
            self._holds.stand(within_s=2 * self._plan.limits.gate_s)

    def enter_state(self, index: int) -> None:
        """Hold Ray's controller in the state that it has entered while an op strikes."""
        gate = self._begin_anywhere(self._plan.ops[index])
        if gate is not None:
            gate.wait(STRIKE_LIMIT_S)

    # -- asked by a worker -----------------------------------------------------------------

    def await_hold(self, index: int) -> bool:
        """Wait until Ray's controller is held, so that a report that returns stays uncommitted.

        False where the op is closed, or the hold did not come within the gate's limit.
        """
        op = self._plan.ops[index]
        with self._changed:
            if not self._may_hold(op):
                return False
            if not self._await_commits(op) or self._is_over():
                return False
            return self._holds.ask(index, within_s=self._plan.limits.gate_s)

    def arrive(self, index: int, victim: Victim) -> Order | None:
        """Hold a worker at an op's place until the strike lets it go, or kills it.

        Gives what the worker is to do to itself, where the fault has it do so.
        """
        op = self._plan.ops[index]
        with self._changed:
            if victim.rank != op.at.rank:
                return self._order_for_all(op, victim)
            if self._over or self._is_spent(op, victim) or not self._is_its_attempt(op, victim):
                return None
            self._record(gate_reached(op, victim))
            ready = self._await_commits(op)
            if self._is_over() or self._is_spent(op, victim):
                return None  # another's arrival, or its successor's, was served meanwhile
            if not ready:
                missing = commits_before(op) - 1
                self._give_up(op, f"the commit of epoch {missing} did not come")
                return None
            if holds_polls(op) and not self._holds.has(index):
                self._give_up(op, "Ray's controller could not be held before its commit")
                return None
            gate = self._begin(op, victim)
        return gate.wait(STRIKE_LIMIT_S)

    # -- told by the harness ---------------------------------------------------------------

    def finish(self, *, within_s: float) -> None:
        """Open all gates and let strikes that are under way come to their end."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
            strikes = list(self._strikes)
        for strike in strikes:
            strike.join(within_s)

    # -- inside ----------------------------------------------------------------------------

    def _record(self, event: AnyEvent) -> None:
        self._journal.add(event)
        self._recorded.append(event)

    def _is_spent(self, op: Op, victim: Victim) -> bool:
        return is_spent(op, victim.attempt, self._recorded)

    def _order_for_all(self, op: Op, victim: Victim) -> Order | None:
        """Give a rank beside the trigger's the order that is for all, once that one is there."""
        key = op.index, victim.attempt
        self._changed.wait_for(
            lambda: self._over or key in self._orders or self._is_spent(op, victim),
            timeout=self._plan.limits.gate_s,
        )
        if key not in self._orders and self._is_struck(op, victim):  # it is about to be told
            self._changed.wait_for(lambda: self._over or key in self._orders, timeout=1.0)
        return self._orders.get(key)

    def _is_its_attempt(self, op: Op, victim: Victim) -> bool:
        """Say whether the attempt recovers from the op that this one refers to, if to any.

        Where it does, it is waited for until it may be struck.
        """
        if isinstance(op.at, AtRecovery) and not is_recovering(
            op.at, victim.attempt, self._recorded
        ):
            return False
        return self._changed.wait_for(
            lambda: self._over or self._group.is_ready(op.at, victim.attempt),
            timeout=self._plan.limits.gate_s,
        )

    def _may_hold(self, op: Op) -> bool:
        """Say whether an op may yet strike in the attempt that runs."""
        return not is_spent(op, self._group.attempt, self._recorded)

    def _is_struck(self, op: Op, victim: Victim) -> bool:
        return any(
            isinstance(e, FaultInvoked) and (e.op, e.attempt) == (op.index, victim.attempt)
            for e in self._recorded
        )

    def _commits(self) -> int:
        return max((e.epoch + 1 for e in self._recorded if isinstance(e, Committed)), default=0)

    def _await_commits(self, op: Op) -> bool:
        needed = commits_before(op)
        return self._changed.wait_for(
            lambda: self._over or self._commits() >= needed, timeout=self._plan.limits.gate_s
        )

    def _give_up(self, op: Op, why: str) -> None:
        self._holds.give_up(op.index)
        within = f"within {self._plan.limits.gate_s:g} s while the rank was held"
        self._record(FaultEnded(op=op.index, status="fail", detail=f"{why} {within}"))
        self._changed.notify_all()

    def _is_over(self) -> bool:
        return self._over

    def _strike_in_time(self, op: Op) -> None:
        assert isinstance(op.at, AtTime)
        with self._changed:
            self._changed.wait_for(self._is_over, timeout=op.at.seconds)
        self._begin_anywhere(op)

    def _begin_anywhere(self, op: Op) -> Gate | None:
        """Begin an op that holds no worker at a place, against whoever has its rank now."""
        with self._changed:
            victim = self._group.holder(op.at.rank or 0)
            if self._over or self._is_spent(op, victim):
                return None
            self._record(gate_reached(op, victim))
            return self._begin(op, victim)

    def _begin(self, op: Op, arrived: Victim) -> Gate:
        assert op in due_ops(self._plan, self._recorded)
        rank = arrived.rank if op.fault.rank is None else op.fault.rank
        victim = arrived if rank == arrived.rank else self._group.get(rank)
        if arrived.pid == NOBODY and not op.strikes_no_worker:
            victim = None
        gate = Gate()
        target = victim or replace(arrived, rank=rank, pid=0, node_id="")
        self._record(
            FaultInvoked(
                op=op.index,
                fault=str(op.fault),
                attempt=target.attempt,
                rank=target.rank,
                pid=target.pid,
                node_id=target.node_id,
            )
        )
        strike = threading.Thread(
            target=self._strike, args=(op, victim, arrived, gate), name=f"op-{op.index}"
        )
        self._strikes.append(strike)
        strike.start()
        return gate

    def _strike(self, op: Op, victim: Victim | None, arrived: Victim, gate: Gate) -> None:
        def release(deadline_ns: int | None = None, *, order: Order | None = None) -> None:
            if gate.is_open:
                return
            if deadline_ns is not None and victim is not None:
                notice = NoticeGiven(op=op.index, node_id=victim.node_id, deadline_ns=deadline_ns)
                self._journal.add(notice)
            self._journal.add(Released(op=op.index, attempt=arrived.attempt, rank=arrived.rank))
            gate.open(order)
            with self._changed:  # a notice, for one, must reach a controller that polls
                if order is not None and op.orders_all:
                    self._orders[op.index, arrived.attempt] = order
                self._holds.give_up(op.index)

        if op.lets_go_first:
            self._record_storage(op)
        outcome = self._carry_out(op, victim, release)
        if not op.lets_go_first:
            self._record_storage(op)
        with self._changed:
            self._record(FaultEnded(op=op.index, status=outcome.status, detail=outcome.detail))
            # Whoever else asked for a hold in this attempt may be dead now and never come.
            self._holds.give_up_all()
        release()
        if outcome.status == "ok" and victim is not None:
            self._heal(op, victim)

    def _heal(self, op: Op, victim: Victim) -> None:
        detail = healed(op.fault, self._world, victim)
        if detail is not None:
            self._journal.add(FaultHealed(op=op.index, detail=detail))

    def _record_storage(self, op: Op) -> None:
        try:
            seen = self._look(op.index)
        except OSError as error:  # no strike waits for it, and it is said
            where = f"looking at storage, op {op.index}"
            self._journal.add(ObserverFailed(where=where, error=f"{error}"))
        else:
            if seen is not None:
                self._journal.add(seen)

    def _carry_out(self, op: Op, victim: Victim | None, release: Release) -> Outcome:
        if victim is None:
            return Outcome("fail", f"no worker holds rank {op.victim_rank}")
        return carried_out(op.fault, self._world, replace(victim, op=op.index), release)
