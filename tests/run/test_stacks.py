"""Stacks as faulthandler writes them, read back: whose line a thread waits in, and for what."""

import subprocess
import sys
from pathlib import Path

import pytest

from chaos.run.stacks import StackFrame, ThreadStack, is_timed, name_callee, parse_stacks

SCRIPT = """\
import faulthandler, queue, sys, threading, time
jobs = queue.Queue()
def collect():
    jobs.get()
def train():
    file = open(sys.argv[1], "w")
    faulthandler.dump_traceback(file)
    faulthandler.dump_traceback(file)
threading.Thread(target=collect, daemon=True).start()
time.sleep(0.3)
train()
"""


def test_the_last_stacks_of_a_file_are_read_with_the_main_thread_known(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    subprocess.run([sys.executable, "train.py", "dump.txt"], cwd=tmp_path, check=True)

    stacks = parse_stacks((tmp_path / "dump.txt").read_text(), cwd=str(tmp_path))

    beside, main = stacks
    assert (beside.is_main, main.is_main) == (False, True)
    file = str(tmp_path / "train.py")
    assert beside.user_frames == (StackFrame(file, 4, "collect"),)
    assert main.user_frames == (StackFrame(file, 8, "train"), StackFrame(file, 11, "<module>"))
    assert name_callee(beside) == "queue.get"


def test_a_file_that_is_empty_or_cut_has_no_stacks() -> None:
    assert parse_stacks("", cwd="/") == ()
    heading = "Current thread 0x0001 (most recent call first):\n"
    assert parse_stacks(heading, cwd="/") == ()


OWN = StackFrame("/job/train.py", 31, "train")
REDUCE = StackFrame(
    "/v/lib/python3/site-packages/torch/distributed/distributed_c10d.py", 9, "all_reduce"
)
WRAPPER = StackFrame("/v/lib/python3/site-packages/torch/distributed/c10d_logger.py", 8, "wrapper")


@pytest.mark.parametrize(
    ("below", "text", "callee"),
    [
        ((REDUCE, WRAPPER), "x", "all_reduce"),
        ((), "time.sleep(0.01)", "time.sleep"),
        ((), "while not ready():", "ready"),
        ((), "loss.item() + float(other())", ""),
        ((), "total = (", ""),
        ((), "total += 1", ""),
    ],
)
def test_the_callee_is_named_where_it_is_known(
    below: tuple[StackFrame, ...], text: str, callee: str
) -> None:
    stack = ThreadStack("0x1", (*below, OWN), is_main=True)
    assert name_callee(stack, lambda _: text) == callee


@pytest.mark.parametrize(
    ("below", "text", "timed"),
    [
        ((), "time.sleep(self.delay)", True),
        (
            (StackFrame("/usr/lib/python3/threading.py", 331, "wait"),),
            "x.acquire(True, timeout)",
            True,
        ),
        ((StackFrame("/usr/lib/python3/threading.py", 327, "wait"),), "waiter.acquire()", False),
        ((REDUCE,), "work.wait(timeout)", False),
    ],
)
def test_a_wait_with_an_end_is_told_from_one_without(
    below: tuple[StackFrame, ...], text: str, timed: bool
) -> None:
    assert is_timed(ThreadStack("0x1", (*below, OWN)), lambda _: text) is timed
