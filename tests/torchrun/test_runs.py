"""torchrun's own agent, real processes, one real SIGKILL; the scripts know nothing of chaos."""

from pathlib import Path

import pytest

from chaos.faults.kill_worker import KillWorker
from chaos.faults.pause_worker import PauseWorker
from chaos.faults.raise_in_worker import RaiseInWorker
from chaos.model.event import EpochEnded, FailureDecided, StepDone, WroteOutside
from chaos.model.fault_entry import FaultEntry
from chaos.model.trigger import AtMoment, AtRecovery, AtStart, AtStep, AtTime
from tests.torchrun.conftest import JOBS, RunJob

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(600)]


def killed(epoch: int, step: int, rank: int) -> FaultEntry:
    return FaultEntry(at=AtStep(epoch=epoch, step=step, rank=rank), kill_worker=KillWorker())


def killed_in_save(epoch: int, rank: int = 0) -> FaultEntry:
    at = AtMoment(epoch=epoch, moment="saving", rank=rank)
    return FaultEntry(at=at, kill_worker=KillWorker())


def killed_as_it_recovers(rank: int) -> FaultEntry:
    at = AtRecovery(recovering_from=0, stage="loading", rank=rank)
    return FaultEntry(at=at, kill_worker=KillWorker())


def test_a_ddp_job_goes_on_from_its_own_file_and_leaves_nothing(
    run: RunJob, desk: Path, scratch: Path
) -> None:
    done = run("ddp", killed(1, 2, rank=1), backend="fork")

    assert done.verdict.status == "pass", done.verdict.headline
    assert done.verdict.restarts.resumed == 1
    assert "resumed from checkpoint.pt (epoch 0)" in done.verdict.headline
    ended = [
        e.epoch for _, e in done.history.select_events(EpochEnded) if (e.attempt, e.rank) == (1, 0)
    ]
    assert ended == [1, 2, 3]
    decided = [event for _, event in done.history.select_events(FailureDecided)]
    assert [(d.attempt, d.decision, d.charged) for d in decided] == [(0, "RETRY", "failures")]
    assert any(
        e.path.endswith("checkpoint.pt") for _, e in done.history.select_events(WroteOutside)
    )
    assert [path.name for path in desk.iterdir()] == ["reports"]
    assert not list(scratch.glob("torchelastic*"))


@pytest.mark.nightly
def test_preflight_takes_the_costs_of_a_step_a_save_and_a_restart(run: RunJob) -> None:
    done = run("ddp", killed(1, 2, rank=1), backend="fork")
    load = pytest.importorskip("chaos.extensions.preflight.load")
    seen = load.measure_job([done.analysis], source="a run")

    job = seen.job
    assert (job.steps, job.checkpoint_every_steps, job.nodes) == (16, 4, 2)
    assert 0 < seen.costs.step_s < 1
    assert seen.costs.upload_s == 0
    assert seen.costs.restart_s > seen.costs.save_s > 0


@pytest.mark.nightly
def test_a_file_that_is_torn_in_a_save_ends_the_job(run: RunJob) -> None:
    done = run("torn", killed_in_save(1), backend="fork")

    assert done.verdict.status == "fail"
    assert "checkpoint.pt" in done.verdict.headline
    told = [result.summary for result in done.verdict.results]
    assert not any("Ray" in text for text in told if not text.startswith("it needs Ray Train"))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("job", "fault"),
    [
        ("ddp", killed_in_save(2)),
        ("ddp", killed(3, 4, rank=1)),
        ("fsdp", killed(1, 3, rank=1)),
        ("fsdp", killed_in_save(1, rank=1)),
        ("within", killed(1, 2, rank=0)),
        ("within", killed(2, 1, rank=1)),
    ],
)
def test_right_jobs_come_out_the_same(run: RunJob, job: str, fault: FaultEntry) -> None:
    done = run(job, fault)

    assert done.verdict.status == "pass", done.verdict.headline


@pytest.mark.nightly
def test_a_worker_may_be_killed_again_as_it_loads(run: RunJob) -> None:
    done = run("ddp", killed(2, 2, rank=0), killed_as_it_recovers(rank=1))

    assert done.verdict.status == "pass", done.verdict.headline
    assert done.verdict.restarts.resumed == 1


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("job", "check", "words"),
    [
        ("optimizer_lost", "state", "optimizer.exp_avg"),
        ("off_by_one", "cursor", "trained again"),
        ("sampler_epoch", "sample-order", "order of epoch"),
    ],
)
def test_what_a_wrong_job_lost_is_named(run: RunJob, job: str, check: str, words: str) -> None:
    done = run(job, killed(2, 2, rank=1))

    assert done.verdict.status == "fail"
    broken = [result for result in done.verdict.results if result.status == "fail"]
    assert broken[0].check == check
    assert words in done.verdict.headline + broken[0].summary


@pytest.mark.nightly
def test_an_error_in_the_script_costs_a_restart_as_a_kill_does(run: RunJob) -> None:
    at = AtStep(epoch=1, step=2, rank=0)
    done = run("ddp", FaultEntry(at=at, raise_in_worker=RaiseInWorker()))

    assert done.verdict.status == "pass", done.verdict.headline
    errors = [
        error for _, e in done.history.select_events(FailureDecided) for error in e.errors.values()
    ]
    assert any("InjectedError" in error for error in errors)


@pytest.mark.nightly
def test_a_worker_that_stands_still_for_a_while_costs_nothing(run: RunJob) -> None:
    at = AtStep(epoch=1, step=2, rank=0)
    done = run("ddp", FaultEntry(at=at, pause_worker=PauseWorker(for_s=1.0)))

    assert done.verdict.status == "pass", done.verdict.headline
    assert not any(done.history.select_events(FailureDecided))


@pytest.mark.nightly
def test_a_round_may_be_struck_as_it_starts(run: RunJob) -> None:
    starting = FaultEntry(at=AtStart(starting=1, rank=0), kill_worker=KillWorker())
    done = run("ddp", killed(1, 2, rank=1), starting)

    assert done.verdict.status == "pass", done.verdict.headline
    assert len(list(done.history.select_events(FailureDecided))) == 2


@pytest.mark.nightly
def test_a_worker_may_be_killed_by_the_clock(run: RunJob) -> None:
    done = run("ddp", FaultEntry(at=AtTime(seconds=2.0, rank=1), kill_worker=KillWorker()))

    assert done.verdict.status == "pass", done.verdict.headline


@pytest.mark.nightly
def test_a_job_that_never_saves_is_one_epoch_and_begins_anew(run: RunJob, tmp_path: Path) -> None:
    text = (Path(__file__).parent / "jobs/ddp.py").read_text()
    script = tmp_path / "nothing_saved.py"
    script.write_text(text.replace("        save(model, optimizer, schedule, epoch)\n", ""))

    done = run(script, killed(0, 6, rank=0))

    assert {event.epoch for _, event in done.history.select_events(StepDone)} == {0}
    assert done.verdict.restarts.from_scratch == 1


def test_a_save_that_was_written_again_is_as_old_as_its_model(run: RunJob) -> None:
    """The newest by its time is the best one, which is written again at each save."""
    done = run("scored", killed(4, 2, rank=1), backend="fork")

    found = next(result for result in done.verdict.results if result.check == "resume-point")
    assert found.status == "fail", done.verdict.headline
    assert (
        "saves/0008/weights.pt, written at epoch 3, step 4 with the model of epoch 1, step 4"
        in (found.summary)
    )
    assert "saves/0016/weights.pt of epoch 3, step 4 was there" in found.summary
    assert "it cost 10 finished steps, and would have cost 2 from that save" in found.summary


@pytest.mark.nightly
def test_the_newest_by_its_name_is_the_newest_whatever_was_written_again(
    run: RunJob, scratch: Path
) -> None:
    text = (JOBS / "scored.py").read_text(encoding="utf-8")
    by_time = "max(weights, key=lambda path: path.stat().st_mtime_ns).parent"
    assert by_time in text
    right = scratch / "by_name.py"
    right.write_text(text.replace(by_time, "weights[-1].parent"), encoding="utf-8")

    done = run(right, killed(4, 2, rank=1), backend="fork")

    assert done.verdict.status == "pass", done.verdict.headline
    assert done.verdict.restarts.resumed == 1
