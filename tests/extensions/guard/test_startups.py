"""Starts that end before a step, and trainings of which no step is seen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from chaos.cli.commands import app
from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.process import GuardedCommand
from chaos.extensions.guard.records import Startup
from chaos.extensions.guard.report import render_metrics
from chaos.extensions.guard.startups import (
    StartupRecorder,
    describe_startups,
    find_ended_startups,
    is_failing,
)
from chaos.extensions.guard.unwatched import CHANGES, UnwatchedTraining
from tests.accepted import expect_text
from tests.extensions.guard.saved_states import save, start

COMMAND = start(0).command
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


def own(folder: GuardFolder, command: tuple[str, ...] = COMMAND) -> StartupRecorder:
    return StartupRecorder(folder, GuardedCommand(command, "/job"), lambda: (0, 1))


def test_a_start_that_reads_a_save_is_one_until_its_first_step(folder: GuardFolder) -> None:
    begun = own(folder)
    begun.record_reading(Path("/data/faces.pt"), 50.0)
    assert folder.load_startups() == []
    begun.record_reading(SAVED, 50.0)
    assert [one.files for one in folder.load_startups()] == [(str(SAVED),)]
    begun.remove_record()
    assert folder.load_startups() == []


def test_another_command_that_reads_a_save_is_no_start(folder: GuardFolder) -> None:
    evaluation = own(folder, ("python", "evaluate.py"))
    evaluation.record_reading(SAVED, 50.0)
    assert evaluation.record_end(50.0) is None
    assert folder.load_startups() == []


def test_starts_are_counted_by_what_they_read_and_how_they_ended(folder: GuardFolder) -> None:
    read = {"files": (str(SAVED),), "is_over": True, "error": "UnpicklingError"}
    for began_s in (50.0, 60.0):
        for rank in (0, 1):
            folder.write_startup(startup(began_s, rank=rank, **read))
        # torchrun ends the other ranks.
        folder.write_startup(startup(began_s, rank=2, files=(str(SAVED),)))
    folder.write_start(start(0, rank=2))
    folder.write_startup(startup(170.0, error="ValueError", is_over=True))
    ended = find_ended_startups(folder, folder.load_starts())
    expect_text("\n".join(describe_startups(ended)))
    shown = CliRunner().invoke(app, ["guard", "report", folder.location])
    assert shown.exit_code == 2
    assert "1 start, 0 restarts" in shown.output
    assert "2 starts ended before a step, after reading step_8.pt" in shown.output
    assert "No start has followed" not in shown.output
    metrics = render_metrics([], ended)
    assert (
        dict(line.rsplit(" ", 1) for line in metrics.splitlines())[
            "chaos_guard_failed_starts_total"
        ]
        == "3"
    )


def test_a_start_that_may_still_make_a_step_has_not_ended(folder: GuardFolder) -> None:
    folder.write_startup(startup(50.0))
    assert find_ended_startups(folder, folder.load_starts()) == []
    folder.write_start(start(1, began_s=60.0))
    (killed,) = find_ended_startups(folder, folder.load_starts())
    assert describe_startups([killed]) == ["1 start ended before a step"]
    assert not is_failing([killed], folder.load_starts())


OWN_STEPS = """
import torch

model = torch.nn.Linear(3, 1)
for _ in range(9):
    model(torch.rand(2, 3)).sum().backward()
    for parameter in model.parameters():
        parameter.data -= 0.1 * parameter.grad
        parameter.grad = None
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
def test_a_training_without_torchs_optimizers_is_told_that_it_is_not_watched(
    tmp_path: Path,
) -> None:
    done = guarded(tmp_path, OWN_STEPS)
    assert done.returncode == 0
    expect_text(done.stderr.splitlines()[0])


@pytest.mark.slow
def test_a_command_without_torch_is_told_that_nothing_was_watched(tmp_path: Path) -> None:
    done = guarded(tmp_path, "print('trained')")
    assert (done.returncode, done.stdout) == (0, "trained\n")
    expect_text(done.stderr)


def test_parameters_that_change_once_are_no_training() -> None:
    told = list[None]()
    looks, model = UnwatchedTraining(lambda: told.append(None)), torch.nn.Linear(3, 1)
    looks.compare_parameters([model])
    model.load_state_dict({name: own + 1 for name, own in model.state_dict().items()})
    for _ in range(9):
        looks.compare_parameters([model])
    assert told == []
    for _ in range(CHANGES):
        with torch.no_grad():
            model.weight += 1
        looks.compare_parameters([model])
    assert (told, looks.has_finished) == ([None], True)
