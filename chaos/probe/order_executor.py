"""A worker's part in faults: the places where it stops, and orders that it carries out itself."""

import contextlib
import errno
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn

from chaos.errors import InjectedError, InjectedWriteError
from chaos.faults.order import Corrupt, Exhaust, FailWrite, Hang, Order, Raise, Slow
from chaos.faults.world import Target
from chaos.model.places import TrainingPlace
from chaos.model.plan import Op
from chaos.model.trigger import SAVE_MOMENTS, AtMoment, AtRecovery, AtStart, AtStep, Moment, Stage
from chaos.probe.corruption import corrupt
from chaos.run.clock import Clock, elapsed_seconds


@dataclass
class PlannedStops:
    """The ops that wait at each place."""

    #: those whose place is this worker's own
    leading_ops: set[int] = field(default_factory=set)
    launch_ops: list[int] = field(default_factory=list)
    stage_ops: dict[Stage, list[int]] = field(default_factory=dict)
    step_ops: dict[TrainingPlace, list[int]] = field(default_factory=dict)
    moment_ops: dict[tuple[int, Moment], list[int]] = field(default_factory=dict)
    #: those inside a save
    save_ops: list[tuple[int, AtMoment]] = field(default_factory=list)

    @classmethod
    def from_ops(cls, ops: Sequence[Op], target: Target) -> "PlannedStops":
        """Return the ops that a worker must stop for, by their place."""
        stops = cls()
        for op in ops:
            is_leading = op.at.rank == target.rank
            if (is_leading or op.fault.orders_all_ranks) and op.can_inject(target.attempt):
                stops._add(op, is_leading=is_leading)
        return stops

    def take_save_ops(self, moment: Moment, epoch: int, path: str) -> list[int]:
        """Return the ops that wait for this moment of a file, and for nothing from now on."""
        save_stops = [
            (index, save_moment)
            for index, save_moment in self.save_ops
            if (save_moment.moment, save_moment.epoch) == (moment, epoch)
            and save_moment.matches_path(path)
        ]
        self.save_ops = [waiting for waiting in self.save_ops if waiting not in save_stops]
        return [index for index, _ in save_stops]

    @property
    def has_validation_ops(self) -> bool:
        return any(moment == "validating" for _, moment in self.moment_ops)

    def _add(self, op: Op, *, is_leading: bool) -> None:
        index, fault_site = op.index, op.at
        if is_leading:
            self.leading_ops.add(index)
        match fault_site:
            case AtStart(at_launch=True):
                self.launch_ops.append(index)
            case AtRecovery():
                self.stage_ops.setdefault(fault_site.stage, []).append(index)
            case AtStart():
                self.stage_ops.setdefault("start", []).append(index)
            case AtStep():
                self.step_ops.setdefault(
                    TrainingPlace(fault_site.epoch, fault_site.step), []
                ).append(index)
            case AtMoment() if fault_site.moment in SAVE_MOMENTS:
                self.save_ops.append((index, fault_site))
            case AtMoment():
                self.moment_ops.setdefault((fault_site.epoch, fault_site.moment), []).append(index)
            case _:  # a state or a time holds no worker
                pass


def is_load_op(op: Op) -> bool:
    """Return whether an op's place is inside the load of a file."""
    return isinstance(op.at, AtRecovery) and op.at.stage == "loading"


FOR_EVER = timedelta(days=365)
CHUNK = 2**24


class OrderExecutor:
    """The orders of one worker. `report_effect` gets an order's token as it takes effect."""

    def __init__(self, report_effect: Callable[[str], None], clock: Clock) -> None:
        self._report_effect = report_effect
        self._clock = clock
        self._slow_orders: list[_SlowOrder] = []
        self._corrupt_orders: list[Corrupt] = []
        self._step_end_ns: int | None = None
        self._memory_chunks: list[bytearray] = []

    def obey(self, order: Order | None) -> None:
        """Carry out an order: raise, hang, take memory; or note it for the steps to come."""
        match order:
            case Raise() | FailWrite():
                self._raise(order)
            case Slow():
                self._slow_orders.append(_SlowOrder(order))
                self._step_end_ns = self._clock.now_ns()
            case Corrupt():
                self._corrupt_orders.append(order)
            case Hang(where="python"):
                self._report_effect(order.token)
                _hang_in_python()
            case Hang():
                self._hang_in_native_code(order)
            case Exhaust():
                # Written and not only allocated: a page that holds zeros takes no memory until it
                # is written to. In chunks, so that no single one is refused.
                self._memory_chunks = [
                    bytearray(b"\1" * size) for size in _split_chunks(order.bytes)
                ]
                self._report_effect(order.token)
                _hang_in_python()
            case None:
                pass

    def _raise(self, order: Raise | FailWrite) -> NoReturn:
        # Not reported here: Ray's own record of the failure is the proof of a raise. A failed write
        # may be caught by the job, so it is reported before.
        if isinstance(order, Raise):
            raise InjectedError(order.message)
        self._report_effect(order.token)
        raise InjectedWriteError(errno.ENOSPC, "No space left on device (injected by chaos)")

    def step_begins(self, optimizer: Any) -> None:  # see `find_kind`
        """Change the tensors that an order names; one that is not there yet is waited for."""
        # As the optimizer's step begins, when gradients have been reduced: a number that is changed
        # earlier reaches all ranks by the reduction, and no copy would differ.
        for order in list(self._corrupt_orders):
            if not corrupt(optimizer, order):
                continue
            self._report_effect(order.token)
            if not order.is_lasting:
                self._corrupt_orders.remove(order)

    def step_done(self) -> None:
        """Prolong the step that has just been done, if an order makes steps slow."""
        if not self._slow_orders or self._step_end_ns is None:
            return
        # From the end of the last prolonged step, so that the delay itself is not prolonged in
        # turn.
        step_s = elapsed_seconds(self._step_end_ns, self._clock)
        for slow_order in self._slow_orders:
            self._clock.sleep(slow_order.count_delay_s(step_s))
            if slow_order.slow_steps == 1:
                self._report_effect(slow_order.order.token)
        self._slow_orders = [
            slow_order for slow_order in self._slow_orders if not slow_order.is_finished
        ]
        self._step_end_ns = self._clock.now_ns()

    def _hang_in_native_code(self, order: Hang) -> None:
        """Wait in C++, where Python cannot interrupt, for a key that torch's store never gets."""
        import torch.distributed as dist

        if not dist.is_initialized():
            raise RuntimeError("the job has no process group to hang in")
        store = dist.distributed_c10d._get_default_store()  # noqa: SLF001 - read in torch 2.13
        self._report_effect(order.token)
        with contextlib.suppress(Exception):
            store.wait([f"chaos-{order.token}"], FOR_EVER)
        _hang_in_python()  # the store's host may die first; this rank must still hang


class _SlowOrder:
    """One order to be slow, and the number of steps made slow so far."""

    def __init__(self, order: Slow) -> None:
        self.order = order
        self.slow_steps = 0

    def count_delay_s(self, step_s: float) -> float:
        """Count a step; return by how much it is to be longer."""
        self.slow_steps += 1
        if self.order.delay_s is not None:
            return self.order.delay_s
        assert self.order.factor is not None
        return step_s * (self.order.factor - 1)

    @property
    def is_finished(self) -> bool:
        return self.order.steps is not None and self.slow_steps >= self.order.steps


def _split_chunks(count: int) -> list[int]:
    chunk_count, remainder = divmod(count, CHUNK)
    return [CHUNK] * chunk_count + [remainder] * bool(remainder)


def _hang_in_python() -> None:
    while True:
        with contextlib.suppress(BaseException):  # only the end of the process may end it
            threading.Event().wait()
