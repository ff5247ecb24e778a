"""What faults said to the worker that was held."""

from collections.abc import Callable
from typing import Protocol

import pytest

from chaos.faults.order import Order
from chaos.faults.world import Outcome, Target, World
from chaos.faults.world import WorkerRelease as HeldRelease
from tests.world import RANK_1, FakeWorld


class Release:
    """Remembers the order with which the worker was let go."""

    def __init__(self) -> None:
        self.orders: list[Order] = []
        self.calls = 0

    def __call__(self, deadline_ns: int | None = None, *, order: Order | None = None) -> None:
        self.calls += 1
        if order is not None:
            self.orders.append(order)


@pytest.fixture
def release() -> Release:
    return Release()


class Strikes(Protocol):
    """A fault, as far as these tests need it."""

    def inject(self, world: World, target: Target, release: HeldRelease) -> Outcome:
        """Do harm."""


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


@pytest.fixture
def inject(world: FakeWorld) -> Callable[[Strikes], Outcome]:
    """Carry a fault out on rank 1; the world remembers when the held worker was let go."""

    def carried_out(fault: Strikes) -> Outcome:
        def let_go(deadline_ns: int | None = None, *, order: Order | None = None) -> None:
            assert order is None
            world.done.append("release" if deadline_ns is None else f"release by {deadline_ns}")

        return fault.inject(world, RANK_1, let_go)

    return carried_out
