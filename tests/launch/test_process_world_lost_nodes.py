"""A node is lost with its disk: who asks for nodes is answered once both are gone."""

import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

from chaos.launch.process_world import ProcessWorld
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import SystemClock

WITHIN_S = 20.0


class SlowDisk:
    """A disk that is gone once it is told to be, or that is never asked for."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.is_gone = False

    def simulate_loss(self, *, unsynced: bool, unfinished: Collection[str]) -> list[str]:
        self.begun.set()
        assert self.may_end.wait(WITHIN_S)
        self.is_gone = True
        return []


def test_a_restart_finds_its_nodes_once_the_disk_of_a_lost_one_is_gone(tmp_path: Path) -> None:
    disk = SlowDisk()
    disk_of: Any = lambda _: disk  # noqa: E731
    world = ProcessWorld(SystemClock(), 2, ArmedFaults(tmp_path), disk_of)
    answers: list[tuple[list[str], bool]] = []

    loses = threading.Thread(target=world.lose_node, args=("node-0",))
    asks = threading.Thread(target=lambda: answers.append((world.live_nodes(), disk.is_gone)))
    loses.start()
    assert disk.begun.wait(WITHIN_S)
    asks.start()
    asks.join(0.2)
    is_held = asks.is_alive()
    disk.may_end.set()
    for thread in (loses, asks):
        thread.join(WITHIN_S)

    assert is_held
    assert answers == [(["node-1"], True)]
