"""Ray Train's own code over forked processes: runs as they are, and jobs that misbehave."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from chaos.model.event import (
    Committed,
    FailureDecided,
    FitReturned,
    Leftover,
    MemoryExhausted,
    ScriptRaised,
    StackTaken,
    StepDone,
    WorkerGroupStarted,
    WorkerStarted,
)
from chaos.processes.memory_monitor import THRESHOLD_ENV, measure_used_share
from tests.forked.conftest import ROOT, RunJob, kill, lose_node

pytestmark = pytest.mark.timeout(120)


def test_a_clean_run_is_watched_from_its_first_step_to_its_result(run: RunJob) -> None:
    judged = run()

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert sum(1 for _ in judged.history.select_events(Committed)) == 3
    assert sum(1 for _ in judged.history.select_events(StepDone)) == 12
    assert sum(1 for _ in judged.history.select_events(FitReturned)) == 1


def test_a_killed_worker_is_replaced_and_comes_out_bitwise_equal(run: RunJob) -> None:
    baseline = run().history

    judged = run(ops=(kill(epoch=1, step=2),), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    started = [event.epoch for _, event in judged.history.select_events(WorkerStarted)]
    assert started == [0, 1]


def test_an_elastic_job_goes_on_with_the_workers_that_there_is_room_for(run: RunJob) -> None:
    digits = {"script": ROOT / "scenarios/jobs/digits_ddp.py", "epochs": 2, "batch-size": 128}
    elastic = {**digits, "workers": 2, "min_workers": 1, "spares": 0}
    baseline = run(**elastic).history

    judged = run(**elastic, ops=(lose_node(epoch=1, step=2, rank=1),), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    sizes = [len(event.workers) for _, event in judged.history.select_events(WorkerGroupStarted)]
    assert sizes == [2, 1]
    assert sum(1 for _ in judged.history.select_events(Committed)) == 2


def test_two_kills_in_one_run_are_two_charges(run: RunJob) -> None:
    baseline = run().history

    judged = run(ops=(kill(epoch=1, step=2), kill(epoch=1, step=3)), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert [e.charged for _, e in judged.history.select_events(FailureDecided)] == [
        "failures",
        "failures",
    ]


def test_a_retry_budget_that_is_spent_ends_the_job_as_on_ray(run: RunJob) -> None:
    judged = run(**{"raise": True})

    decisions = [event.decision for _, event in judged.history.select_events(FailureDecided)]
    assert decisions == ["RETRY", "RETRY", "RAISE"]
    assert judged.result("outcome") == "fail"


def test_a_segfault_ends_its_own_attempt_and_no_more(run: RunJob) -> None:
    judged = run(segfault=True)

    assert [event.decision for _, event in judged.history.select_events(FailureDecided)] == [
        "RETRY"
    ]
    assert judged.result("outcome") == "pass"


@pytest.mark.nightly
def test_a_rank_that_eats_the_memory_ends_its_own_attempt_and_no_more(
    run: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    gib = 2**30 / psutil.virtual_memory().total
    monkeypatch.setenv(THRESHOLD_ENV, str(measure_used_share() + 1.5 * gib))

    judged = run(eat=True)

    assert [event.rank for _, event in judged.history.select_events(MemoryExhausted)] == [0]
    assert [event.decision for _, event in judged.history.select_events(FailureDecided)] == [
        "RETRY"
    ]
    assert judged.result("outcome") == "pass"


def test_what_a_worker_prints_goes_to_the_runs_log(run: RunJob) -> None:
    judged = run(loud=True)

    assert judged.verdict.status == "pass"
    assert "x" * 10_000 in (judged.directory.logs / "driver.log").read_text()


def test_a_hang_ends_at_the_limit_with_the_stacks_of_the_rank(run: RunJob) -> None:
    judged = run(hang=True, ops=(kill(epoch=1, step=2),), run_s=4.0)

    paths = [event.path for _, event in judged.history.select_events(StackTaken) if event.rank == 0]
    assert judged.result("terminates") == "fail"
    assert "tiny.py" in "".join((judged.directory.path / path).read_text() for path in paths)


def test_a_process_that_made_a_session_of_its_own_is_found_and_ended(run: RunJob) -> None:
    judged = run(leave=True)

    left = [event.name for _, event in judged.history.select_events(Leftover)]
    assert len(left) == 1
    assert "time.sleep(90)" in left[0]
    assert judged.result("leftovers") == "fail"
    gone = [p for p in psutil.process_iter() if p.pid == int(left[0].split()[1].rstrip(":"))]
    assert psutil.wait_procs(gone, timeout=5)[1] == []


def test_a_script_that_never_fits_is_told_so(run: RunJob) -> None:
    judged = run(script=ROOT / "tests/ray/jobs/never_fits.py")

    assert [event.error for _, event in judged.history.select_events(ScriptRaised)] == ["NoFit"]


def test_a_script_that_does_not_import_is_told_so(run: RunJob) -> None:
    judged = run(script=ROOT / "tests/ray/jobs/does_not_import.py")

    assert [e.error for _, e in judged.history.select_events(ScriptRaised)] == [
        "ModuleNotFoundError"
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("import ray\n@ray.remote\ndef f(): pass\nf.remote()\n", "`ray.remote` (`f.remote()`, "),
        ("import ray\nf = ray.remote(print)\nf.remote()\n", "`ray.remote` (`print.remote()`, "),
        (
            (
                "from ray.train.torch import TorchTrainer\n"
                "TorchTrainer(lambda: None, datasets={'train': object()}).fit()\n"
            ),
            "Ray Data",
        ),
        ("import ray\nray.get_actor('theirs')\n", "`ray.get_actor()`"),
        (
            (
                "import ray\nfrom ray.train.torch import TorchTrainer\n"
                "TorchTrainer(lambda: print(ray.available_resources())).fit()\n"
            ),
            "`ray.available_resources()` once fit() was called",
        ),
    ],
)
def test_what_needs_a_cluster_is_refused_by_name(
    run: RunJob, tmp_path: Path, body: str, reason: str
) -> None:
    script = tmp_path / "needs_ray.py"
    script.write_text(body)

    judged = run(script=script)

    said = "".join((judged.directory.logs / name).read_text() for name in logs(judged.directory))
    said += "".join(event.message for _, event in judged.history.select_events(ScriptRaised))
    assert reason in said


def test_a_script_may_open_and_shut_ray_and_ask_how_large_it_is(
    run: RunJob, tmp_path: Path
) -> None:
    script = tmp_path / "plain.py"
    script.write_text(
        f"import ray, sys\nsys.path.insert(0, {str(ROOT / 'tests/ray/jobs')!r})\nimport tiny\n"
        "ray.init()\nprint('CPUs', ray.cluster_resources(), ray.available_resources()['CPU'])\n"
        "tiny.main()\nprint('CPUs', ray.cluster_resources())\nray.shutdown()\n"
    )

    judged = run(script=script, spares=2)

    assert judged.verdict.status == "pass", judged.verdict.headline
    said = "".join((judged.directory.logs / name).read_text() for name in logs(judged.directory))
    assert "CPUs {'CPU': 3.0} 3.0\n" in said
    assert "CPUs {'CPU': 3.0}\n" in said


def logs(directory: object) -> list[str]:
    return sorted(os.listdir(directory.logs))  # type: ignore[attr-defined]  # noqa: PTH208


def test_a_killed_harness_takes_the_zygote_and_its_children_with_it(tmp_path: Path) -> None:
    scenario = ROOT / "tests/ray/odd/hangs_after_resume.chaos.yaml"
    words = [sys.executable, "-m", "chaos", "run", str(scenario), "--backend", "fork"]
    with subprocess.Popen(
        [*words, "--reports", str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if "attempt 1 started" in line)
        below = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    assert len(below) >= 3
    _, alive = psutil.wait_procs(below, timeout=20)
    assert alive == []
