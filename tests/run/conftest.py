"""A world of memory, and a clock that is moved by hand."""

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from chaos.faults.order import Order
from chaos.faults.world import Victim
from chaos.run.clock import SystemClock
from chaos.run.journal import Journal


class FakeWorld:
    """Does what it is told and remembers it; `dead` decides what was seen to happen."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.dies = True
        self.gone_already = False
        self.deadline = threading.Event()
        self.deadline.set()
        self.over = False
        self.effect: str | None = "raised on rank 1"
        self.stops = True
        self.obeys = True
        self.errors: dict[int, str] | None = None
        self.workers: dict[int, Victim] = {}

    def signal_worker(self, victim: Victim, signal_name: str) -> None:
        if self.gone_already:
            raise ProcessLookupError(f"pid {victim.pid}")
        self.done.append(f"SIG{signal_name} {victim.pid}")

    def end_worker_actor(self, victim: Victim) -> None:
        self.done.append(f"ray.kill {victim.rank}")

    def worker_is_gone(self, victim: Victim, *, within_s: float) -> bool:
        return self.dies

    def worker_is_stopped(self, victim: Victim, *, within_s: float) -> bool:
        return self.stops

    def group(self) -> Mapping[int, Victim]:
        return self.workers

    def failure_of(self, victim: Victim, *, within_s: float) -> Mapping[int, str] | None:
        return self.errors

    def has_obeyed(self, order: Order, *, within_s: float) -> bool:
        return self.obeys

    def let_pass(self, seconds: float) -> bool:
        self.done.append(f"{seconds:g} s pass")
        return not self.over

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        self.done.append(f"notice {node_id} {notice_s:g}")
        return 99

    def wait_until(self, deadline_ns: int) -> bool:
        self.deadline.wait(10)
        return not self.over

    def lose_node(self, node_id: str) -> None:
        self.done.append(f"lose {node_id}")

    def arm_storage(self, victim: Victim) -> None:
        self.done.append(f"arm op {victim.op} for rank {victim.rank}")

    def await_storage(self, victim: Victim) -> str | None:
        return self.effect

    def node_is_dead(self, node_id: str, *, within_s: float) -> bool:
        return self.dies


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path, "chaos", role="chaos", clock=SystemClock())
