"""Signals that Slurm sends to workers of real processes; the sender alone stands for Slurm."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.extensions.slurm.world import SlurmWorld
from chaos.faults.world import Target
from chaos.processes.tree import is_stopped
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import SystemClock, await_condition

# It writes a line for each signal that it has got.
HEARS = (
    "import signal, sys\n"
    "signal.signal(signal.SIGUSR1, lambda *_: print('got', flush=True))\n"
    "print('ready', flush=True)\n"
    "while True: signal.pause()\n"
)


def sending(pids: Sequence[int]) -> Any:  # as much of `Slurm` as is asked
    def send(number: int, name: str, *, to_batch: bool) -> None:
        del number, to_batch
        for pid in pids:
            os.kill(pid, signal.Signals[f"SIG{name}"])

    return SimpleNamespace(signal=send)


def world_of(workers: Sequence[int], sent_to: Sequence[int], folder: Path) -> SlurmWorld:
    world = SlurmWorld(SystemClock(), sending(sent_to), ArmedFaults(folder), lambda _: None)  # type: ignore[arg-type,return-value]
    world.learn_group({n: Target(0, n, pid, "node-0") for n, pid in enumerate(workers)})
    return world


@pytest.fixture
def worker() -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", HEARS], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def ended() -> int:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


def test_a_signal_that_came_to_each_worker_has_landed(
    worker: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    world = world_of([worker.pid], [worker.pid], tmp_path)

    assert world.signal("USR1", to_batch=False, within_s=5.0)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "got\n"  # it goes on


def test_a_signal_that_went_to_none_has_not_landed(
    worker: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    assert not world_of([worker.pid], [], tmp_path).signal("USR1", to_batch=False, within_s=0.2)
    # A worker that had ended before is no proof.
    assert not world_of([ended()], [], tmp_path).signal("USR1", to_batch=False, within_s=0.2)


def test_a_worker_that_another_fault_holds_stays_held(
    worker: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    worker.send_signal(signal.SIGSTOP)
    assert await_condition(lambda: is_stopped(worker.pid), SystemClock(), within_s=5.0, poll_s=0.01)

    assert world_of([worker.pid], [worker.pid], tmp_path).signal(
        "USR1", to_batch=False, within_s=5.0
    )
    assert is_stopped(worker.pid)
