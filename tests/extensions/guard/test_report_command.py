"""`chaos guard` tells of a training that does not come back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chaos.cli.commands import app
from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.records import Startup
from tests.extensions.guard.restarts import restart
from tests.extensions.guard.saved_states import save, start

SAVED = Path("/saves/step_8.pt")


def startup(began_s: float, **changed: object) -> Startup:
    given = {"rank": 0, "began_s": began_s, "host": "another", "pid": 1} | changed
    return Startup(**given)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> GuardFolder:
    made = GuardFolder(str(tmp_path / "guard"))
    made.write_start(start(0))
    made.write_save(save(8))
    return made


def test_a_training_that_does_not_start_any_more_has_not_come_back(folder: GuardFolder) -> None:
    folder.write_restart(restart(1))
    report = ["guard", "report", folder.location]
    assert CliRunner().invoke(app, report).exit_code == 0
    # A start after the end of the training has nothing to do, and ends in order.
    folder.write_startup(startup(50.0, files=(str(SAVED),), is_over=True))
    assert CliRunner().invoke(app, report).exit_code == 0
    folder.write_startup(startup(60.0, files=(str(SAVED),), is_over=True, error="ValueError"))
    assert CliRunner().invoke(app, report).exit_code == 2


NUMBER = """
import os, signal
import numpy as np
import torch

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if os.path.exists("step.pt"):
    torch.load("step.pt")
for step in range(4):
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "loss": np.float64(1)}, "step.pt")
os.kill(os.getpid(), signal.SIGKILL)
"""


def guarded(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "job.py").write_text(text, encoding="utf-8")
    words = [sys.executable, "-m", "chaos", "guard", "--folder", "guard", "--"]
    return subprocess.run(
        [*words, sys.executable, "job.py"],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_job_that_cannot_read_its_save_is_told_by_its_starts(tmp_path: Path) -> None:
    *_, last = [guarded(tmp_path, NUMBER) for _ in range(3)]
    line = "rank 0: ended before a step, after reading step.pt (UnpicklingError)"
    assert f"chaos-guard: {line}" in last.stderr
    shown = CliRunner().invoke(app, ["guard", "report", str(tmp_path / "guard")])
    assert "2 starts ended before a step, after reading step.pt (UnpicklingError)" in shown.output
