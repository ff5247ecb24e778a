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
from chaos.model.places import Place
from chaos.model.plan import Op
from chaos.model.trigger import IN_A_SAVE, AtMoment, AtRecovery, AtStart, AtStep, Moment, Stage
from chaos.probe.corruption import corrupt
from chaos.run.clock import Clock, seconds_since


@dataclass
class Places:
    """The ops that wait at each place."""

    #: those whose place is this worker's own
    leads: set[int] = field(default_factory=set)
    launches: list[int] = field(default_factory=list)
    stages: dict[Stage, list[int]] = field(default_factory=dict)
    steps: dict[Place, list[int]] = field(default_factory=dict)
    moments: dict[tuple[int, Moment], list[int]] = field(default_factory=dict)
    #: those inside a save
    saves: list[tuple[int, AtMoment]] = field(default_factory=list)

    @classmethod
    def of(cls, ops: Sequence[Op], target: Target) -> "Places":
        """Return the ops that a worker must stop for, by their place."""
        places = cls()
        for op in ops:
            leads = op.at.rank == target.rank
            if (leads or op.fault.orders_all) and op.may_inject(target.attempt):
                places._add(op, leads=leads)
        return places

    def due_in_save(self, moment: Moment, epoch: int, path: str) -> list[int]:
        """Return the ops that wait for this moment of a file, and for nothing from now on."""
        due = [
            (index, at)
            for index, at in self.saves
            if (at.moment, at.epoch) == (moment, epoch) and at.is_of(path)
        ]
        self.saves = [waiting for waiting in self.saves if waiting not in due]
        return [index for index, _ in due]

    @property
    def strikes_in_validation(self) -> bool:
        return any(moment == "validating" for _, moment in self.moments)

    def _add(self, op: Op, *, leads: bool) -> None:
        index, place = op.index, op.at
        if leads:
            self.leads.add(index)
        match place:
            case AtStart(at_launch=True):
                self.launches.append(index)
            case AtRecovery():
                self.stages.setdefault(place.stage, []).append(index)
            case AtStart():
                self.stages.setdefault("start", []).append(index)
            case AtStep():
                self.steps.setdefault(Place(place.epoch, place.step), []).append(index)
            case AtMoment() if place.moment in IN_A_SAVE:
                self.saves.append((index, place))
            case AtMoment():
                self.moments.setdefault((place.epoch, place.moment), []).append(index)
            case _:  # a state or a time holds no worker
                pass


def is_in_load(op: Op) -> bool:
    """Return whether an op's place is inside the load of a file."""
    return isinstance(op.at, AtRecovery) and op.at.stage == "loading"


FOR_EVER = timedelta(days=365)
CHUNK = 2**24


class Obedience:
    """The orders of one worker. `tell` is called with an order's token as it takes effect."""

    def __init__(self, tell: Callable[[str], None], clock: Clock) -> None:
        self._tell = tell
        self._clock = clock
        self._slow: list[_Slowness] = []
        self._corrupt: list[Corrupt] = []
        self._since_ns: int | None = None
        self._held: list[bytearray] = []

    def obey(self, order: Order | None) -> None:
        """Carry out an order: raise, hang, take memory; or note it for the steps to come."""
        match order:
            case Raise() | FailWrite():
                self._raise(order)
            case Slow():
                self._slow.append(_Slowness(order))
                self._since_ns = self._clock.now_ns()
            case Corrupt():
                self._corrupt.append(order)
            case Hang(where="python"):
                self._tell(order.token)
                _hang_in_python()
            case Hang():
                self._hang_in_native_code(order)
            case Exhaust():
                # Written and not only allocated: a page that holds zeros takes no memory until it
                # is written to. In chunks, so that no single one is refused.
                self._held = [bytearray(b"\1" * size) for size in _chunks(order.bytes)]
                self._tell(order.token)
                _hang_in_python()
            case None:
                pass

    def _raise(self, order: Raise | FailWrite) -> NoReturn:
        # Not reported here: Ray's own record of the failure is the proof of a raise. A failed write
        # may be caught by the job, so it is reported before.
        if isinstance(order, Raise):
            raise InjectedError(order.message)
        self._tell(order.token)
        raise InjectedWriteError(errno.ENOSPC, "No space left on device (injected by chaos)")

    def step_begins(self, optimizer: Any) -> None:  # see `kind_of`
        """Change the tensors that an order names; one that is not there yet is waited for."""
        # As the optimizer's step begins, when gradients have been reduced: a number that is changed
        # earlier reaches all ranks by the reduction, and no copy would differ.
        for order in list(self._corrupt):
            if not corrupt(optimizer, order):
                continue
            self._tell(order.token)
            if not order.is_lasting:
                self._corrupt.remove(order)

    def step_done(self) -> None:
        """Prolong the step that has just been done, if an order makes steps slow."""
        if not self._slow or self._since_ns is None:
            return
        # From the end of the last prolonged step, so that the delay itself is not prolonged in
        # turn.
        took_s = seconds_since(self._since_ns, self._clock)
        for slowness in self._slow:
            self._clock.sleep(slowness.delay_s(took_s))
            if slowness.made == 1:
                self._tell(slowness.order.token)
        self._slow = [slowness for slowness in self._slow if not slowness.is_over]
        self._since_ns = self._clock.now_ns()

    def _hang_in_native_code(self, order: Hang) -> None:
        """Wait in C++, where Python cannot interrupt, for a key that torch's store never gets."""
        import torch.distributed as dist

        if not dist.is_initialized():
            raise RuntimeError("the job has no process group to hang in")
        store = dist.distributed_c10d._get_default_store()  # noqa: SLF001 - read in torch 2.13
        self._tell(order.token)
        with contextlib.suppress(Exception):
            store.wait([f"chaos-{order.token}"], FOR_EVER)
        _hang_in_python()  # the store's host may die first; this rank must still hang


class _Slowness:
    """One order to be slow, and the number of steps made slow so far."""

    def __init__(self, order: Slow) -> None:
        self.order = order
        self.made = 0

    def delay_s(self, took_s: float) -> float:
        """Count a step; return by how much it is to be longer."""
        self.made += 1
        if self.order.delay_s is not None:
            return self.order.delay_s
        assert self.order.factor is not None
        return took_s * (self.order.factor - 1)

    @property
    def is_over(self) -> bool:
        return self.order.steps is not None and self.made >= self.order.steps


def _chunks(count: int) -> list[int]:
    whole, rest = divmod(count, CHUNK)
    return [CHUNK] * whole + [rest] * bool(rest)


def _hang_in_python() -> None:
    while True:
        with contextlib.suppress(BaseException):  # only the end of the process may end it
            threading.Event().wait()
