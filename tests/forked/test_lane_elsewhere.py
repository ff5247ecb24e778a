"""A lane on another host: the files of a run come back from it, and nothing stays there."""

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.audit.folder import AuditFolder
from chaos.audit.job_profile import measure_job
from chaos.audit.judged_run import JudgedRun, judge_on_node, list_judges
from chaos.audit.plans import build_base_plan, build_fault_plan
from chaos.audit.site_category import SiteCategory
from chaos.audit.site_groups import FaultSite
from chaos.audit.site_queue import FaultRun
from chaos.check.judge import judge
from chaos.errors import ClusterError
from chaos.extensions.cluster.existing.lanes import JudgeRequest, LaneActor
from chaos.faults.kill_worker import KillWorker
from chaos.model.history import Baseline, History
from chaos.model.plan import Op
from chaos.model.trigger import AtStep
from chaos.run import held_folders, remote_files
from chaos.run.directory import RunDirectory, create_run
from chaos.run.journal import read_history

ROOT = Path(__file__).parents[2]
NAME = "chaos-lane-of-a-test"
PLAN = build_base_plan(Path("scenarios/jobs/digits_ddp.py"), ["--epochs", "2"], cwd=ROOT, seed=0)
GROUP: SiteCategory = "mid-epoch"
KILL = Op(index=0, at=AtStep(epoch=1, step=2, rank=1), kill_worker=KillWorker())


def sent(baseline: Baseline) -> Baseline:
    """Return a baseline as it comes out of a store."""
    copy: Baseline = pickle.loads(pickle.dumps(baseline))
    return copy


@pytest.fixture
def lane(monkeypatch: pytest.MonkeyPatch) -> Iterator[LaneActor]:
    for name in [*os.environ]:
        if name.startswith("RAY_") or name == "OMP_NUM_THREADS":
            monkeypatch.delenv(name)
    actor = LaneActor(NAME, None, fetch=sent)
    try:
        yield actor
    finally:
        actor.end()
        assert not held_folders.build_path(NAME).exists()


@pytest.mark.nightly
def test_the_files_of_a_run_elsewhere_are_those_of_one_here(
    lane: LaneActor, tmp_path: Path
) -> None:
    directory = create_run(tmp_path, "run", PLAN, {})
    files, found = lane.execute(remote_files.pack_files(directory))
    assert not any(directory.journals.iterdir())
    assert not [*held_folders.build_path(NAME).iterdir()]

    remote_files.unpack_files(files, directory.path)
    verdict = judge(PLAN, read_history(directory.journals), None)
    assert verdict.status == "pass", verdict.headline
    assert found is None


def test_a_run_is_judged_on_its_node_as_it_would_be_here(lane: LaneActor, tmp_path: Path) -> None:
    clean = create_run(tmp_path, "clean", PLAN.build_baseline_plan(), {})
    files, _ = lane.execute(remote_files.pack_files(clean))
    remote_files.unpack_files(files, clean.path)
    baseline = Baseline([read_history(clean.journals)])
    place = FaultSite("epoch 1, step 2, rank 1", GROUP, (KILL,))
    run = FaultRun(1, (place,))
    directory = create_run(
        tmp_path, "run", build_fault_plan(PLAN, place, measure_job(baseline)), {}
    )

    given = remote_files.pack_files(directory)
    files, there = lane.execute(given, JudgeRequest(judge_on_node, baseline, (run, list_judges())))
    remote_files.unpack_files(files, directory.path)

    assert there == judged_here(directory, baseline, run, seconds=there.seconds)
    assert there.rows[0].is_right
    assert {name.partition("/")[0] for name in files} == {"history.jsonl", "verdict.json", "logs"}


def judged_here(directory: RunDirectory, baseline: Baseline, run: Any, *, seconds: float) -> Any:
    """Return the run as the harness judges it, after a check that the verdict is the same."""
    told, plan = directory.load_verdict(), directory.load_plan()
    means = directory, plan, directory.load_history(), baseline
    done = AuditFolder(directory.path, {}).judge(*means, seconds=seconds)
    assert done.verdict == told
    return JudgedRun.from_run(run, done)


def test_a_node_with_other_checks_judges_nothing(tmp_path: Path) -> None:
    directory = create_run(tmp_path, "run", PLAN, {})

    others = (*list_judges(), "more of p 1")
    with pytest.raises(ClusterError, match="another chaos than this machine"):
        judge_on_node(directory, 1.0, Baseline([History([])]), (FaultRun(1, ()), others))
