"""A world of memory that faults strike, and what they said to the worker that was held."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from chaos.faults.order import Order
from chaos.faults.world import Victim

RANK_0 = Victim(attempt=0, rank=0, pid=70, node_id="node-a")
RANK_1 = Victim(attempt=0, rank=1, pid=71, node_id="node-b")


@dataclass
class World:
    """Remembers what is done; `ends` has the signals that end a process."""

    ends: tuple[str, ...] = ("KILL", "TERM")
    stops: bool = True
    obeys: bool = True
    errors: Mapping[int, str] | None = None
    is_over: bool = False
    done: list[str] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)

    def signal_worker(self, victim: Victim, signal_name: str) -> None:
        if victim.pid in self.gone:
            raise ProcessLookupError(f"pid {victim.pid}")
        self.done.append(f"SIG{signal_name} {victim.pid}")
        if signal_name in self.ends:
            self.gone.add(victim.pid)

    def end_worker_actor(self, victim: Victim) -> None:
        self.signal_worker(victim, "KILL")

    def worker_is_gone(self, victim: Victim, *, within_s: float) -> bool:
        return victim.pid in self.gone

    def worker_is_stopped(self, victim: Victim, *, within_s: float) -> bool:
        return self.stops

    def group(self) -> Mapping[int, Victim]:
        return {0: RANK_0, 1: RANK_1}

    def failure_of(self, victim: Victim, *, within_s: float) -> Mapping[int, str] | None:
        return self.errors

    def has_obeyed(self, order: Order, *, within_s: float) -> bool:
        return self.obeys

    def let_pass(self, seconds: float) -> bool:
        self.done.append(f"{seconds:g} s pass")
        return not self.is_over

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        raise AssertionError(node_id)

    def wait_until(self, deadline_ns: int) -> bool:
        raise AssertionError(deadline_ns)

    def lose_node(self, node_id: str) -> None:
        raise AssertionError(node_id)

    def node_is_dead(self, node_id: str, *, within_s: float) -> bool:
        raise AssertionError(node_id)

    def arm_storage(self, victim: Victim) -> None:
        raise AssertionError(victim)

    def await_storage(self, victim: Victim) -> str | None:
        raise AssertionError(victim)


class Release:
    """Remembers the order with which the worker was let go."""

    def __init__(self) -> None:
        self.orders: list[Order] = []

    def __call__(self, deadline_ns: int | None = None, *, order: Order | None = None) -> None:
        if order is not None:
            self.orders.append(order)


@pytest.fixture
def release() -> Release:
    return Release()
