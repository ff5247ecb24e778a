"""What a world knows of drivers: their number, their attempts, and those that stand still."""

import subprocess
import sys
from pathlib import Path

import pytest

from chaos.faults.world import Target
from chaos.launch import world as module
from chaos.launch.world import RunWorld
from chaos.processes.tree import is_stopped
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import SystemClock


def test_two_drivers_never_number_an_attempt_alike(tmp_path: Path) -> None:
    world = RunWorld(SystemClock(), ArmedFaults(tmp_path))

    assert [world.next_attempt(known) for known in (0, 0, 1, 1)] == [0, 1, 2, 3]


def test_a_worker_that_ends_as_it_is_frozen_leaves_the_driver_to_be_thawed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = RunWorld(SystemClock(), ArmedFaults(tmp_path))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with subprocess.Popen(["sleep", "60"]) as driver:
        world.driver_started(driver.pid)
        world.learn_group({0: Target(attempt=0, rank=0, pid=gone.pid, node_id="n")})
        # The worker ends after it was looked at, and before it is stopped.
        looks = iter([False, False])
        monkeypatch.setattr(module, "is_stopped", lambda pid: next(looks, is_stopped(pid)))

        assert world.freeze_driver(within_s=5.0) == 2
        assert is_stopped(driver.pid)
        world.thaw_driver()
        assert not is_stopped(driver.pid)
        driver.kill()
