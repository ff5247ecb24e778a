"""A job that is killed for real and started again by hand, guarded, without a harness."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.incident import build_scenario
from chaos.extensions.guard.records import RestartAnswer
from chaos.extensions.guard.report import load_judged_restarts

JOB = Path(__file__).with_name("jobs") / "rings.py"
PASSES = JOB.with_name("passes.py")
later = partial(pytest.param, marks=pytest.mark.nightly)  # each is a start of torch
STOPS = ("--on-mismatch", "stop")
KILLED_AT = 70  # 16 steps an epoch: the last save is that of step 64


def started(
    folder: Path, *, guard: Path | None, job: Path = JOB, how: Sequence[str] = (), **given: str
) -> tuple[int, str]:
    """Run the job in a folder, with variables; return its exit code and what it wrote."""
    command = [sys.executable, str(job)]
    if guard is not None:
        command = [sys.executable, "-m", "chaos", "guard", "--folder", str(guard), *how, "--"]
        command += [sys.executable, str(job)]
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the job was killed."""
    folder = tmp_path_factory.mktemp("killed")
    code, _ = started(folder, guard=folder / "guard", KILL_AT=str(KILLED_AT))
    assert code == -signal.SIGKILL
    return folder


def again(
    killed: Path, folder: Path, *, how: Sequence[str] = (), **given: str
) -> tuple[RestartAnswer, str, int]:
    """Start the killed job again in a copy of its folder; return what the guard says."""
    shutil.copytree(killed, folder / "copy")  # with the times of the files
    guard = folder / "copy/guard"
    code, text = started(folder / "copy", guard=guard, job=JOB, how=how, **given)
    restarts = GuardFolder(str(guard)).load_restarts()
    assert len(restarts) == 1
    return restarts[0], text, code


def kinds(restart: RestartAnswer) -> list[tuple[str, str]]:
    return [(finding.level, finding.kind) for finding in restart.findings]


@pytest.mark.slow
def test_a_right_job_comes_back_and_its_steps_are_the_same_to_the_last_bit(
    killed: Path, tmp_path: Path
) -> None:
    restart, text, code = again(killed, tmp_path)
    assert code == 0
    assert (restart.step, restart.lost, restart.is_done) == (64, 6, True)
    assert (restart.replayed, restart.same_inputs, restart.same_losses) == (6, 6, 6)
    assert {"model", "model.buffers", "optimizer.momentum_buffer", "optimizer.lr"} <= set(
        restart.compared
    )
    assert restart.findings == ()
    assert "went on from step 64, its state as it was saved" in text


@pytest.mark.slow
def test_the_guard_changes_no_number(tmp_path: Path) -> None:
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    _, guarded = started(tmp_path / "with", guard=tmp_path / "guard")
    _, plain = started(tmp_path / "without", guard=None)
    assert guarded == plain
    assert [path.name for path in (tmp_path / "with").iterdir()] == ["rings.pt"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lost", "expected", "words"),
    [
        ("optimizer", ("mismatch", "state"), "optimizer.momentum_buffer"),
        ("data", ("mismatch", "data"), "steps 65 to 68 have the inputs that steps 1 to 4 had"),
        later("model", ("mismatch", "state"), "model: reset, as at the first step"),
        later("schedule", ("mismatch", "state"), "schedule: reset"),
        later("generator", ("notice", "generators"), "rng.torch did not go on where they stood"),
        later("all", ("mismatch", "began-anew"), "the save of step 64 is there"),
    ],
)
def test_what_is_lost_is_named(
    killed: Path, tmp_path: Path, lost: str, expected: tuple[str, str], words: str
) -> None:
    restart, _, code = again(killed, tmp_path, LOST=lost)
    assert code == 0
    assert expected in kinds(restart)
    assert words in " ".join(finding.text for finding in restart.findings)


@pytest.mark.nightly
def test_a_pass_that_begins_as_the_first_one_did_is_no_mismatch(tmp_path: Path) -> None:
    """A right job: it saves between passes, and seeds itself alike at each start."""
    guard = tmp_path / "guard"
    started(tmp_path, guard=guard, DRAWS="-1", KILL_AT=str(KILLED_AT))
    _, text = started(tmp_path, guard=guard, DRAWS="-1", LOST="generator")
    (restart,) = GuardFolder(str(guard)).load_restarts()
    assert ("notice", "data") in kinds(restart)
    assert not restart.is_wrong
    assert (
        "steps 65 to 68 have the inputs that steps 1 to 4 had before the restart; rng.torch" in text
    )


@pytest.mark.nightly
def test_a_job_that_draws_its_data_anew_is_not_blamed(killed: Path, tmp_path: Path) -> None:
    restart, _, _ = again(killed, tmp_path, DRAWS="1000")
    assert restart.same_inputs == 0
    assert not restart.is_wrong


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("goes_on", "expected"),
    [
        ("last", [("mismatch", "data")]),
        later("save", []),
        later("next", [("notice", "data")]),
    ],
)
def test_samples_that_a_pass_leaves_out_are_seen_once_it_is_over(
    tmp_path: Path, goes_on: str, expected: list[tuple[str, str]]
) -> None:
    guard = tmp_path / "guard"
    code, _ = started(tmp_path, guard=guard, job=PASSES, KILL_AT="20")
    assert code == -signal.SIGKILL
    code, _ = started(tmp_path, guard=guard, job=PASSES, GOES_ON=goes_on)
    assert code == 0
    (restart,) = load_judged_restarts(GuardFolder(str(guard)))
    assert (restart.step, restart.lost, restart.has_come_back) == (18, 2, True)
    assert kinds(restart) == expected


@pytest.mark.nightly
def test_a_mismatch_stops_a_job_that_asked_for_it(killed: Path, tmp_path: Path) -> None:
    restart, text, code = again(killed, tmp_path, how=STOPS, LOST="optimizer")
    assert code == 1
    assert restart.is_wrong
    assert "ResumeMismatchError:" in text


@pytest.mark.nightly
def test_what_is_accepted_stops_nothing_and_all_else_does(killed: Path, tmp_path: Path) -> None:
    how = [*STOPS, "--accept", "schedule", "--accept", "optimizer-settings"]
    restart, text, code = again(killed, tmp_path, how=how, LOST="schedule")
    assert code == 0
    assert {one.level for one in restart.findings if one.kind == "state"} == {"accepted"}
    assert "as it was saved but for what is accepted" in text
    _, text, code = again(killed, tmp_path / "other", how=how, LOST="optimizer")
    assert (code, "ResumeMismatchError:" in text) == (1, True)


@pytest.mark.nightly
@pytest.mark.timeout(180)
def test_an_incident_is_done_again_and_fails_for_the_same_reason(
    killed: Path, tmp_path: Path
) -> None:
    restart, _, _ = again(killed, tmp_path, LOST="optimizer")
    assert restart.is_wrong
    text = build_scenario(GuardFolder(str(tmp_path / "copy/guard")))
    assert "at: {epoch: 4, step: 6, rank: 0}" in text
    text = text.replace("  workers: 1\n", "  workers: 1\n  env: {LOST: optimizer}\n")
    path = tmp_path / "incident.chaos.yaml"
    path.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "chaos", "run", str(path), "--reports", str(tmp_path / "r")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "optimizer" in done.stdout


CLIMBS = """
import torch

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    for rows in (2, 5):
        model(torch.rand(rows, 3)).sum().backward()
        if rows == 2:
            with torch.no_grad():
                model.weight.add_(0.01 * model.weight.grad)
            optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.nightly
def test_what_moves_the_parameters_is_of_a_step_though_its_gradients_are_cleared(
    tmp_path: Path,
) -> None:
    job = tmp_path / "climbs.py"
    job.write_text(CLIMBS, encoding="utf-8")
    words = [sys.executable, "-m", "chaos", "guard", "--folder", str(tmp_path / "guard")]

    subprocess.run([*words, "--", sys.executable, str(job)], check=True)

    steps = GuardFolder(str(tmp_path / "guard")).load_steps(0, 0)
    assert [len(step.samples) // 8 for step in steps] == [2 + 5] * 3
