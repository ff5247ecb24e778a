"""Sharded saves of torchrun's ranks that are killed for real, guarded, without a harness."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.records import RestartAnswer
from chaos.extensions.guard.report import find_answer, load_judged_restarts

JOB = Path(__file__).with_name("jobs") / "shards.py"
later = partial(pytest.param, marks=pytest.mark.nightly)  # each is four processes of torch


def restarted(folder: Path, **given: str) -> list[RestartAnswer]:
    """Start the job, which torchrun restarts; return each rank's restart."""
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [sys.executable, "-m", "chaos", "guard", "--folder", str(folder / "guard"), "--"]
    command += [sys.executable, "-m", *torchrun, "--max-restarts", "1", str(JOB)]
    once = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | once | given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "not watched" not in done.stdout
    return load_judged_restarts(GuardFolder(str(folder / "guard")))


def said(folder: Path, **given: str) -> list[tuple[int | None, list[str], bool]]:
    """Return the step each rank went on from, its findings, and whether its state came back."""
    return [
        (one.step, [f"{f.level} {f.kind}" for f in one.findings], one.has_come_back)
        for one in restarted(folder, **given)
    ]


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # It goes back to an older save, although a newer whole one is there.
        ({"KILL_AT": "15", "FROM": "4"}, (4, ["mismatch older"], True)),
        # Right: it goes on from the newest one.
        later({"KILL_AT": "15"}, (12, [], True)),
        # Right: the newest one is torn, its index was never written.
        later({"KILL_AT": "SAVE:12"}, (8, [], True)),
        # Right: which save it finds whole is a matter of time.
        later({"KILL_AT": "16", "BESIDE": "1"}, (None, [], True)),
        # Nothing shows that a save beside training was over for the job.
        later({"KILL_AT": "15", "BESIDE": "1", "FROM": "4"}, (4, ["notice older"], True)),
        later({"KILL_AT": "SAVE:12", "BESIDE": "1"}, (8, [], True)),
    ],
)
def test_a_newer_sharded_save_is_missed_if_it_is_whole(
    tmp_path: Path, given: dict[str, str], expected: tuple[int | None, list[str], bool]
) -> None:
    step, *answer = expected
    found = said(tmp_path, **given)
    assert [rest for _, *rest in found] == [answer] * 2
    assert {one for one, *_ in found} == {step} or step is None


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # Right: rank 1 has saved nothing, and its steps show that its shards came back.
        ("right", ["came back", "came back"]),
        later("lost", ["mismatch", "unknown"]),
    ],
)
def test_a_rank_whose_shards_another_one_saves_is_known_by_its_steps(
    tmp_path: Path, given: str, expected: list[str]
) -> None:
    restarts = restarted(tmp_path, EVERY="8", KILL_AT="13", FULL=given)
    assert [one.step for one in restarts] == [8, 8]
    assert [find_answer(one) for one in restarts] == expected
