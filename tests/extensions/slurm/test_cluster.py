"""A Slurm of one run: it comes up, answers, and leaves nothing."""

import contextlib
import os
from pathlib import Path

import psutil
import pytest

from chaos.errors import UnmetNeedError, UsageError
from chaos.extensions.slurm.cluster import SlurmCluster
from chaos.extensions.slurm.run import require_one_training
from chaos.model.scenario import Job
from chaos.run.clock import SystemClock, await_condition
from tests.accepted import expect_text

pytestmark = pytest.mark.timeout(120)
STARTS = int(os.environ.get("CHAOS_SLURM_STARTS", "200"))
STUBBORN = """\
#!/bin/bash
#SBATCH --nodes=2
trap '' TERM
srun bash -c 'trap "" TERM; touch $FOLDER/steps; while :; do sleep 1; done'
"""


def left_of(folder: Path) -> list[str]:
    """Return the processes whose command or environment names a folder, and the folder itself."""
    found = [str(folder)] if folder.exists() else []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(folder) in " ".join([*process.cmdline(), *process.environ().values()]):
                found.append(str(process))
    return found


def cluster(folder: Path) -> SlurmCluster:
    return SlurmCluster(2, 1, folder / "log", SystemClock())


def started_and_ended(folder: Path, *, with_a_job: bool = False) -> Path:
    one = cluster(folder)
    try:
        one.start()
        assert one.find_idle_nodes() >= {"node-0", "node-1"}
        if with_a_job:  # whose steps outlive the daemons, unless they are ended as well
            script = folder / "stubborn.sbatch"
            script.write_text(STUBBORN, encoding="utf-8")
            script_env = {**os.environ, "FOLDER": str(one.folder)}
            one.submit([str(script)], script_env, "/", folder / "job.log", forces_log=True)
            assert await_condition(
                (one.folder / "steps").exists, SystemClock(), within_s=30, poll_s=0.05
            )
    finally:
        one.stop()
    return one.folder


@pytest.mark.embedded
def test_a_cluster_comes_up_and_leaves_no_process_and_no_file(slurm: None, tmp_path: Path) -> None:
    assert not left_of(started_and_ended(tmp_path))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_many_clusters_with_and_without_a_job_leave_nothing(slurm: None, tmp_path: Path) -> None:
    left = list[str]()
    for number in range(STARTS):
        left += left_of(started_and_ended(tmp_path, with_a_job=number % 2 == 1))

    assert not left


@pytest.mark.embedded
def test_what_is_no_script_for_sbatch_is_refused_in_its_words(slurm: None, tmp_path: Path) -> None:
    script = tmp_path / "train.sbatch"
    script.write_text("import torch\n", encoding="utf-8")
    one = cluster(tmp_path)
    try:
        one.start()
        with pytest.raises(UsageError, match="does not look like a batch script"):
            one.submit(
                [str(script)], os.environ, str(tmp_path), tmp_path / "out.log", forces_log=False
            )
    finally:
        one.stop()


def array_job(tmp_path: Path, header: str, task: int | None) -> Job:
    script = tmp_path / "train.sbatch"
    script.write_text(f"#!/bin/bash\n{header}\nsrun python a.py\n", encoding="utf-8")
    return Job(launcher="slurm", script=str(script), workers=1, array_task=task)


@pytest.mark.parametrize("header", ["#SBATCH --array=0-1", "#SBATCH -a 0-1"])
def test_an_array_is_refused_at_its_line_unless_a_task_is_chosen(
    tmp_path: Path, header: str
) -> None:
    with pytest.raises(UsageError, match=r"train\.sbatch:2: each task of --array=0-1 is a tr"):
        require_one_training(array_job(tmp_path, header, None))

    require_one_training(array_job(tmp_path, header, 1))


def test_a_task_of_no_array_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"job\.array_task is 1, and the script has no --array"):
        require_one_training(array_job(tmp_path, "#SBATCH --nodes=1", 1))


def test_without_slurm_the_need_is_named_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.extensions.slurm.cluster.find_missing_slurm", lambda: ("sbatch",))

    with pytest.raises(UnmetNeedError, match="no `sbatch` is found") as caught:
        cluster(tmp_path).start()

    expect_text(str(caught.value))
