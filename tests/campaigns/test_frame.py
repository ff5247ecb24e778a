"""What the campaigns rest on: a bound that holds, leftovers that are found, draws that repeat."""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.campaigns.commands import TOKEN, look_for_leftovers, place
from tests.campaigns.frame import FILES, KINDS, PROCESSES, Tally, TooSlowError, bounded
from tests.campaigns.kills import blows
from tests.campaigns.mutations import mutated


def test_a_wait_for_a_pipe_that_nobody_writes_to_is_broken_off(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")

    with pytest.raises(TooSlowError):
        bounded((tmp_path / "fifo").read_bytes, seconds=0.2)


def test_a_loop_that_catches_every_exception_is_broken_off() -> None:
    def stubborn() -> None:
        while True:
            try:
                sum(range(1000))
            except Exception:  # noqa: BLE001 - it is to be stubborn
                continue

    with pytest.raises(TooSlowError):
        bounded(stubborn, seconds=0.2)


def test_a_call_that_is_quick_enough_gives_its_result() -> None:
    assert bounded(lambda: 3, seconds=60) == 3


def test_a_process_and_a_file_that_were_left_are_found_and_the_process_is_ended() -> None:
    tally = Tally("t", 1)
    with place() as here:
        (here.temporary / "checkpoint").touch()
        words = [sys.executable, "-c", "import time; print(flush=True); time.sleep(90)"]
        env = {**os.environ, TOKEN: here.token}
        with subprocess.Popen(words, env=env, stdout=subprocess.PIPE) as left:
            assert left.stdout is not None
            left.stdout.readline()
            process = psutil.Process(left.pid)
            look_for_leftovers(here, tally, "t", within_s=0)

    assert [kind for kind, _ in tally.violations] == [PROCESSES, FILES]
    assert not process.is_running()


def test_the_line_tells_every_kind_and_counts_what_was_violated() -> None:
    tally = Tally("kills", 7, ("late",))
    tally.tries = 3
    tally.violated(FILES, "x")

    line = tally.line()

    assert "\n" not in line
    assert all(re.search(rf"\b\d+ {kind}", line) for kind in (*KINDS, "late"))
    assert "1 files left" in line
    assert "seed 7" in line


def test_the_same_seed_does_the_same_harm() -> None:
    text = b"scenario: s\njob: {script: x.py, workers: 2}\n" * 5

    first, again = ([mutated(text, random.Random(seed)) for seed in range(50)] for _ in range(2))

    assert first == again
    assert len({data for data, _ in first}) > 40


@pytest.mark.parametrize("backend", ["fork", "ray"])
def test_every_way_to_be_killed_has_its_turn(backend: str) -> None:
    names = [blow.name for blow in blows(backend)]

    assert {"SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "session"} <= set(names)
    assert len(names) == len(set(names)) <= 12
