"""A lane on another host: the files of a run come back from it, and nothing stays there."""

import os
from pathlib import Path

import pytest

from chaos.audit.plans import base_plan
from chaos.check.judge import judge
from chaos.launch.ray.lanes import LaneActor
from chaos.run import files_elsewhere, leavings
from chaos.run.directory import create
from chaos.run.journal import read_history

ROOT = Path(__file__).parents[2]
NAME = "chaos-lane-of-a-test"


def test_the_files_of_a_run_elsewhere_are_those_of_one_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [*os.environ]:
        if name.startswith("RAY_") or name == "OMP_NUM_THREADS":
            monkeypatch.delenv(name)
    plan = base_plan(Path("scenarios/jobs/digits_ddp.py"), ["--epochs", "2"], cwd=ROOT, seed=0)
    directory = create(tmp_path, "run", plan, {})
    lane = LaneActor(NAME, None)
    try:
        files = lane.execute(files_elsewhere.pack(directory))
        assert not any(directory.journals.iterdir())
        assert not [*leavings.named(NAME).iterdir()]
    finally:
        lane.end()

    files_elsewhere.unpack(files, directory.path)
    verdict = judge(plan, read_history(directory.journals), None)
    assert verdict.status == "pass", verdict.headline
    assert not leavings.named(NAME).exists()
