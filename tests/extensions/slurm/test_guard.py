"""The guard of a script for sbatch: a requeue is a restart of each rank."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.records import RestartAnswer
from chaos.extensions.guard.report import load_judged_restarts
from chaos.extensions.slurm.cluster import SlurmCluster
from chaos.run.clock import SystemClock, await_condition
from tests.extensions.slurm.conftest import ROOT

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(300)]
JOBS = ROOT / "scenarios/jobs"


@pytest.fixture
def cluster(slurm: None, tmp_path: Path) -> Iterator[SlurmCluster]:
    del slurm
    one = SlurmCluster(2, 1, tmp_path / "log", SystemClock())
    try:
        one.start()
        yield one
    finally:
        one.stop()


def requeued(cluster: SlurmCluster, folder: Path, *words: str) -> list[RestartAnswer]:
    """Train with a guard, requeue the job after a save and two steps, and let it end."""
    clock, guard, log = SystemClock(), GuardFolder(str(folder / "guard")), folder / "job.log"
    script = folder / "guarded.sbatch"
    text = (JOBS / "slurm/spirals.sbatch").read_text(encoding="utf-8")
    script.write_text(text.replace("srun ", "chaos guard --folder guard -- srun "), "utf-8")
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "SPIRALS": str(JOBS / "spirals_torchrun.py"),
    }
    words = (str(script), "--step-seconds", "0.1", *words)
    number = cluster.submit(words, env, str(folder), log)

    def has_saved() -> bool:
        made, steps = max((s.step for s in guard.load_saves()), default=0), guard.load_steps(0, 0)
        return bool(made and steps) and steps[-1].number >= made + 2

    def has_ended() -> bool:
        seen = cluster.job(number)
        return seen is not None and seen.has_ended

    assert await_condition(has_saved, clock, within_s=120, poll_s=0.1), log.read_text()
    cluster.control("requeue", number)
    assert await_condition(has_ended, clock, within_s=150, poll_s=0.1), log.read_text()
    return load_judged_restarts(guard)


def test_a_requeued_job_comes_back_on_every_rank(cluster: SlurmCluster, tmp_path: Path) -> None:
    restarts = requeued(cluster, tmp_path)

    assert {(one.start, one.rank) for one in restarts} == {(1, 0), (1, 1)}
    assert all(one.has_come_back and not one.is_wrong for one in restarts)
    assert all(one.replayed == one.same_inputs == one.same_losses > 0 for one in restarts)


def test_a_requeued_job_that_forgets_its_optimizer_is_told(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    restarts = requeued(cluster, tmp_path, "--forget", "optimizer")

    assert {one.rank for one in restarts if one.is_wrong} == {0, 1}
    assert {found.group for one in restarts for found in one.findings} == {"optimizer"}
