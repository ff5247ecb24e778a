"""One fault, carried out in a world of memory."""

from collections.abc import Callable
from typing import Protocol

import pytest

from chaos.faults.world import Outcome, Release, Victim, World
from tests.run.conftest import FakeWorld

VICTIM = Victim(attempt=0, rank=1, pid=101, node_id="node-1")


class Strikes(Protocol):
    """A fault, as far as these tests need it."""

    def strike(self, world: World, victim: Victim, release: Release) -> Outcome:
        """Do harm."""


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


@pytest.fixture
def strike(world: FakeWorld) -> Callable[[Strikes], Outcome]:
    def carried_out(fault: Strikes) -> Outcome:
        def release(deadline_ns: int | None) -> None:
            world.done.append("release" if deadline_ns is None else f"release by {deadline_ns}")

        return fault.strike(world, VICTIM, release)

    return carried_out
