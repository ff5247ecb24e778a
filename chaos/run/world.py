"""What the world of every backend has: who holds each rank, what was told, the storage, the end."""

from collections.abc import Callable, Mapping
from typing import Any

from chaos.faults.order import Order
from chaos.faults.world import Victim
from chaos.model.event import FailureDecided
from chaos.run.armed import ArmedFaults
from chaos.run.clock import Clock, seconds_since
from chaos.run.controller import ChaosController
from chaos.run.free_memory import free_bytes

POLL_S = 0.005


def answers(controller: ChaosController, world: "RunWorld") -> dict[str, Callable[..., Any]]:
    """Return, by its name, the answer to each question of a process of the run."""
    return {
        "group_launched": controller.group_launched,
        "committed": controller.committed,
        "may_poll": controller.may_poll,
        "await_hold": controller.await_hold,
        "enter_state": controller.enter_state,
        "arrive": controller.arrive,
        "obeyed": world.obeyed,
        "failure_decided": world.failure_decided,
    }


class RunWorld:
    """The part of a `World` that is the same on any backend, for one run.

    It is told by the observer, the workers and the harness, and asked by faults.
    """

    def __init__(self, clock: Clock, armed: ArmedFaults) -> None:
        self._clock = clock
        self._armed = armed
        self._group: dict[int, Victim] = {}
        self._failures: dict[int, FailureDecided] = {}
        self._obeyed: set[str] = set()
        self._over = False
        self.driver: int | None = None

    # -- told ------------------------------------------------------------------------------

    def learn_group(self, group: Mapping[int, Victim]) -> None:
        """Learn who holds each rank."""
        self._group = dict(group)

    def failure_decided(self, event: FailureDecided) -> None:
        """Learn that Ray has decided what follows from a failure."""
        self._failures.setdefault(event.attempt, event)

    def obeyed(self, token: str) -> None:
        """Learn that a worker does as it was told."""
        self._obeyed.add(token)

    def end(self) -> None:
        """Learn that the run is over: nothing is waited for any longer."""
        self._over = True

    # -- asked -----------------------------------------------------------------------------

    def group(self) -> Mapping[int, Victim]:
        """Return who holds each rank now."""
        return self._group

    def failure_of(self, victim: Victim, *, within_s: float) -> Mapping[int, str] | None:
        """Wait until Ray has recorded that the victim's attempt failed; gives the ranks' errors."""
        self._await(lambda: victim.attempt in self._failures, within_s)
        event = self._failures.get(victim.attempt)
        return None if event is None else event.errors

    def free_memory(self) -> int:
        """Return how many bytes of memory are free, of this machine or of its container."""
        return free_bytes()

    def has_obeyed(self, order: Order, *, within_s: float) -> bool:
        """Wait until a worker says that it does as it was told."""
        return self._await(lambda: order.token in self._obeyed, within_s)

    def let_pass(self, seconds: float) -> bool:
        """Let time pass; False where the run ended before it was over."""
        self._await(lambda: False, seconds)
        return not self._over

    def wait_until(self, deadline_ns: int) -> bool:
        """Let time pass until a deadline (monotonic ns); False where the run ended before it."""
        self._await(lambda: self._clock.now_ns() >= deadline_ns)
        return self._clock.now_ns() >= deadline_ns

    def arm_storage(self, victim: Victim) -> None:
        """Let the storage fault of the victim's op take effect when its rank next gives cause."""
        self._armed.arm(victim.op, victim.rank)

    def await_storage(self, victim: Victim) -> str | None:
        """Wait until storage itself says what the op's fault did; None: the run ended before."""
        self._await(lambda: self._armed.effect(victim.op) is not None)
        return self._armed.effect(victim.op)

    def _await(self, is_there: Callable[[], bool], within_s: float | None = None) -> bool:
        """Wait no longer than the run, nor than `within_s`; says whether it is there."""
        start = self._clock.now_ns()
        while not is_there():
            late = within_s is not None and seconds_since(start, self._clock) > within_s
            if self._over or late:
                return is_there()
            self._clock.sleep(POLL_S)
        return True
