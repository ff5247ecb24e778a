"""A lane on a host that does not see the audit's folder: its files come back, and nothing stays."""

import os
from pathlib import Path

import pytest

from chaos.audit.plans import base_plan
from chaos.backends.ray.lanes import Lane, packed
from chaos.check.judge import judge
from chaos.run import apart, leavings
from chaos.run.directory import create
from chaos.run.journal import read_history

ROOT = Path(__file__).parents[2]


def test_the_files_of_a_run_elsewhere_are_those_of_one_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [*os.environ]:
        if name.startswith("RAY_") or name == "OMP_NUM_THREADS":
            monkeypatch.delenv(name)
    plan = base_plan(Path("scenarios/jobs/digits_ddp.py"), ["--epochs", "2"], cwd=ROOT, seed=0)
    directory = create(tmp_path, "run", plan, {})
    lane = Lane(str(tmp_path), "another", 0)

    files = lane.execute(plan.model_dump_json(), str(directory.path), packed(directory))

    assert not any(directory.journals.iterdir())
    apart.unpack(files, directory.path)
    verdict = judge(plan, read_history(directory.journals), None)
    assert verdict.status == "pass", verdict.headline
    folder = leavings.named("chaos-lane-another-0")
    assert not [*folder.iterdir()]
    leavings.remove(folder)


def test_a_lane_that_sees_the_folder_writes_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    apart.leave_mark(tmp_path, "token")
    plan = base_plan(Path("scenarios/jobs/digits_ddp.py"), ["--epochs", "2"], cwd=ROOT, seed=0)
    directory = create(tmp_path, "run", plan, {})

    files = Lane(str(tmp_path), "token", 0).execute(
        plan.model_dump_json(), str(directory.path), packed(directory)
    )

    assert not files
    verdict = judge(plan, read_history(directory.journals), None)
    assert verdict.status == "pass", verdict.headline
