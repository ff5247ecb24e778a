"""What a worker has started ends with it, as on Ray; what left its process group does not."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from chaos.launch.forked.lane import ProcessGroups
from chaos.model.event import Leftover
from tests.audit.backend import Ticking
from tests.forked.conftest import ROOT, RunJob, kill

LEADER = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(90)
"""
MEEK = "import time; print(flush=True); time.sleep(90)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + MEEK
STARTS = """
import runpy, subprocess, sys
import ray.train
from ray.train.torch import TorchTrainer
sys.path.insert(0, {folder!r})
import tiny
inner = tiny.train_loop
def train_loop(config):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(90)"])
    inner(config)
tiny.train_loop = train_loop
tiny.main()
"""


@pytest.mark.parametrize("child", [MEEK, DEAF], ids=["asked", "killed"])
def test_a_group_is_asked_to_end_and_then_killed(child: str) -> None:
    clock, words = Ticking(), [sys.executable, "-c", LEADER, child]
    with subprocess.Popen(words, stdout=subprocess.PIPE, process_group=0) as leader:
        assert leader.stdout is not None
        orphan = psutil.Process(int(leader.stdout.readline()))
        groups = ProcessGroups(clock)
        groups.add(leader.pid)
        leader.kill()
        leader.wait()

        groups.end_group(leader.pid)
        if child == DEAF:
            groups.kill_overdue()
            assert orphan.status() != psutil.STATUS_ZOMBIE
            clock.sleep(0.2)
            groups.kill_overdue()

        assert psutil.wait_procs([orphan], timeout=20)[1] == []


def test_who_leads_no_group_takes_nobody_along() -> None:
    groups = ProcessGroups(Ticking())
    with subprocess.Popen([sys.executable, "-c", MEEK], process_group=0) as other:
        groups.end_group(other.pid)
        groups.kill_overdue()

        assert other.poll() is None
        os.kill(other.pid, signal.SIGKILL)


@pytest.mark.timeout(120)
def test_a_process_that_a_killed_rank_has_started_is_no_leftover(
    run: RunJob, tmp_path: Path
) -> None:
    script = tmp_path / "starts.py"
    script.write_text(STARTS.format(folder=str(ROOT / "tests/ray/jobs")))

    judged = run(script=script, ops=(kill(epoch=1, step=2),), baseline=run(script=script).history)

    assert [event.kind for _, event in judged.history.select_events(Leftover)] == []
    assert judged.verdict.status == "pass", judged.verdict.headline
