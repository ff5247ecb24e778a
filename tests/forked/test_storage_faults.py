"""Storage that fails under Ray Train's own storage code, and what chaos makes of it."""

from typing import Any

import pytest

from chaos.faults.corrupt_snapshot import CorruptSnapshot
from chaos.faults.delayed_visibility import DelayedVisibility
from chaos.faults.disk_full import DiskFull
from chaos.faults.fail_upload import FailUpload
from chaos.faults.slow_upload import SlowUpload
from chaos.faults.torn_checkpoint import TornCheckpoint
from chaos.model.event import (
    Committed,
    FailureDecided,
    StorageFaulted,
    WorkerStarted,
)
from chaos.model.expect import Expect
from chaos.model.fault_entry import FaultEntry
from chaos.model.trigger import AtMoment
from tests.forked.conftest import Judged, RunJob, kill

pytestmark = pytest.mark.timeout(120)


def in_upload(epoch: int, **fault: Any) -> FaultEntry:
    return FaultEntry(at=AtMoment(epoch=epoch, moment="upload_begin", rank=0), **fault)


def charged(judged: Judged) -> list[str]:
    return [event.charged for _, event in judged.history.select_events(FailureDecided)]


def test_an_upload_that_fails_is_charged_once_and_the_commit_before_it_is_resumed_from(
    run: RunJob,
) -> None:
    baseline = run().history
    refused = in_upload(1, fail_upload=FailUpload())
    full = in_upload(2, disk_full=DiskFull(after_bytes=100))

    judged = run(ops=(refused, full), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert charged(judged) == ["failures", "failures"]
    assert [event.epoch for _, event in judged.history.select_events(WorkerStarted)] == [0, 1, 2]
    assert judged.history.count(StorageFaulted) == 2
    assert "storage" in judged.verdict.headline


def test_a_half_that_its_dying_writer_left_is_never_resumed_from(run: RunJob) -> None:
    baseline = run().history
    torn = in_upload(1, torn_checkpoint=TornCheckpoint(worker_dies=True))

    judged = run(ops=(torn,), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert charged(judged) == ["failures"]
    assert [event.epoch for _, event in judged.history.select_events(WorkerStarted)] == [0, 1]


def test_uploads_that_fail_in_a_row_are_charged_once_each(run: RunJob) -> None:
    baseline = run().history

    judged = run(ops=(in_upload(1, fail_upload=FailUpload(times=2)),), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert charged(judged) == ["failures", "failures"]


def test_what_a_job_need_not_notice_costs_nothing(run: RunJob) -> None:
    baseline = run(epochs=6).history
    ops = (
        in_upload(1, fail_upload=FailUpload(error="AWS Error SLOW_DOWN")),
        in_upload(2, slow_upload=SlowUpload(delay_s=0.2)),
        in_upload(3, slow_upload=SlowUpload(bytes_per_s=20_000)),
        in_upload(4, corrupt_snapshot=CorruptSnapshot()),
    )

    judged = run(epochs=6, ops=ops, baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert charged(judged) == []
    assert {event.op for _, event in judged.history.select_events(StorageFaulted)} == {0, 1, 2, 3}


def test_every_restart_that_looks_too_early_is_charged(run: RunJob) -> None:
    baseline = run().history
    hidden = in_upload(1, delayed_visibility=DelayedVisibility(for_s=0.01))

    judged = run(ops=(hidden, kill(epoch=2, step=1)), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert charged(judged) == ["failures", "failures"]


def test_retention_is_not_turned_away_from_what_nobody_resumed_from(run: RunJob) -> None:
    baseline = run(keep=1).history
    hidden = in_upload(1, delayed_visibility=DelayedVisibility(for_s=600))

    judged = run(keep=1, ops=(hidden,), baseline=baseline)

    assert judged.result("outcome") == "pass", judged.verdict.headline
    assert judged.verdict.status == "inconclusive"
    assert "storage was not used so before the run was over" in judged.verdict.headline


def test_a_committed_half_is_found_though_nobody_read_it(run: RunJob) -> None:
    baseline = run().history

    judged = run(ops=(in_upload(1, torn_checkpoint=TornCheckpoint()),), baseline=baseline)

    assert judged.history.count(Committed) == 3
    assert judged.result("checkpoints") == "fail"
    assert judged.result("retry-budget") == "pass"


def test_ray_hands_out_a_committed_half_until_the_budget_is_gone(run: RunJob) -> None:
    baseline = run().history
    torn = in_upload(1, torn_checkpoint=TornCheckpoint())
    expect = Expect(verdict="fail", check="checkpoints", outcome="error")

    judged = run(ops=(torn, kill(epoch=2, step=1)), baseline=baseline, expect=expect)

    decisions = [event.decision for _, event in judged.history.select_events(FailureDecided)]
    assert decisions == ["RETRY", "RETRY", "RAISE"]
    assert judged.verdict.as_expected
