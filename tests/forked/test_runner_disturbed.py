"""A process that somebody else ends is nobody's defect: the run is tried again, and says so."""

from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from chaos.audit.plans import build_base_plan
from chaos.check.judge import judge
from chaos.launch.forked.backend import ForkBackend
from chaos.model.event import Disturbed, JournalOpened, RunStarted, StepDone
from chaos.model.history import History, JournalEntry
from chaos.model.plan import Plan
from chaos.run.directory import create_run
from chaos.run.journal import read_history
from tests.forked.conftest import ROOT

pytestmark = [pytest.mark.timeout(180), pytest.mark.embedded]
DIGITS = ROOT / "scenarios/jobs/digits_ddp.py"
# Who is killed, as so many generations above the driver; -1 is a worker.
WORKER, DRIVER, LANE, SCRIPT, START = range(-1, 4)


class Killer:
    """Kills one process of a run, at a step of its second epoch, in so many tries."""

    def __init__(self, whom: int, *, times: int = 1) -> None:
        self._whom = whom
        self._times = times
        self._pids: dict[str, int] = {}

    def __call__(self, entries: Sequence[JournalEntry]) -> None:
        for entry in entries:
            match entry.event:
                case JournalOpened(role="driver" | "worker") as opened:
                    self._pids[opened.role] = opened.pid
                case StepDone(epoch=1, step=2, rank=0) if self._times:
                    self._times -= 1
                    self._kill()

    def _kill(self) -> None:
        process = psutil.Process(self._pids["worker" if self._whom == WORKER else "driver"])
        above = [process, *process.parents()]
        above[max(self._whom, DRIVER)].kill()


def plan_in(folder: Path) -> Plan:
    return build_base_plan(DIGITS, ["--epochs", "6"], cwd=folder, seed=0, workers=1)


def disturbed(history: History) -> list[str]:
    return [event.why for _, event in history.select_events(Disturbed)]


@pytest.mark.parametrize(
    ("whom", "says"),
    [
        pytest.param(WORKER, "a worker", marks=pytest.mark.nightly),
        (DRIVER, "the process that calls fit()"),
        pytest.param(
            LANE, "the process that a lane's runs are forked from", marks=pytest.mark.nightly
        ),
        pytest.param(SCRIPT, "the start of the script", marks=pytest.mark.nightly),
        pytest.param(START, "the process that jobs are forked from", marks=pytest.mark.nightly),
    ],
    ids=["worker", "driver", "lane", "start of the script", "root"],
)
def test_a_run_with_a_process_killed_by_others_is_tried_again_and_comes_through(
    whom: int, says: str, tmp_path: Path
) -> None:
    plan = plan_in(tmp_path)
    directory = create_run(tmp_path, "run", plan, {})

    with ForkBackend() as backend:
        backend.execute(plan, directory, Killer(whom))

    history = read_history(directory.journals)
    [started] = [event for _, event in history.select_events(RunStarted)]
    assert says in (started.again_after or "") or "is gone" in (started.again_after or "")
    assert "chaos did not end it" in (started.again_after or "")
    assert judge(plan, history).status == "pass"
    assert any((directory.path / "tried-before" / "journals").iterdir())


@pytest.mark.nightly
def test_a_run_that_is_disturbed_twice_can_not_be_told(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    directory = create_run(tmp_path, "run", plan, {})

    with ForkBackend() as backend:
        backend.execute(plan, directory, Killer(DRIVER, times=2))

    history = read_history(directory.journals)
    verdict = judge(plan, history)
    assert verdict.status == "inconclusive"
    assert "was ended by SIGKILL, and chaos did not end it" in disturbed(history)[0]
    assert "dmesg" in verdict.headline


STUCK = """
import os, pathlib, runpy, sys, threading
def hang():
    forked = pathlib.Path("forked")
    with forked.open("a") as file:
        file.write("x")
    if forked.stat().st_size > 2:  # a lane and a driver
        threading.Event().wait()
os.register_at_fork(after_in_child=hang)
runpy.run_path({digits!r}, run_name="__main__")
"""


@pytest.mark.nightly
def test_of_a_worker_that_is_stuck_in_its_fork_the_stacks_are_kept(tmp_path: Path) -> None:
    """A hook that a library has registered may wait for a lock that nobody holds in the child."""
    script = tmp_path / "stuck.py"
    script.write_text(STUCK.format(digits=str(DIGITS)))
    plan = build_base_plan(script, ["--epochs", "6"], cwd=tmp_path, seed=0, workers=1)
    directory = create_run(tmp_path, "run", plan, {})

    with ForkBackend() as backend:
        backend.execute(plan, directory, lambda _: None)

    [started] = [e for _, e in read_history(directory.journals).select_events(RunStarted)]
    assert "a worker did not come to its first line, twice" in (started.again_after or "")
    assert "in hang" in (directory.path / "tried-before/logs/stacks-start.txt").read_text()
