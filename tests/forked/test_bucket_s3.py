"""A job whose checkpoints are in a bucket: what holds on a disk holds there, and is seen."""

from collections.abc import Iterator
from typing import Any

import pytest

from chaos.faults.fail_upload import FailUpload
from chaos.faults.torn_checkpoint import TornCheckpoint
from chaos.model.event import (
    CheckpointDeleted,
    Committed,
    FailureDecided,
    FitCalled,
    Leftover,
    LeftoversSearched,
    ObserverFailed,
    PartUploaded,
    StorageSeen,
)
from chaos.model.fault_entry import FaultEntry
from chaos.model.history import History
from chaos.model.trigger import AtMoment
from tests.forked.conftest import RunJob, kill
from tests.s3 import BUCKET, S3, SECRET, WHY_NOT, is_there, s3_server

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(not is_there(), reason=WHY_NOT),
]


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with s3_server() as server:
        yield server


def of(history: History, kind: Any) -> list[Any]:
    return [event for _, event in history.select_events(kind)]


def in_upload(epoch: int, **fault: Any) -> FaultEntry:
    return FaultEntry(at=AtMoment(epoch=epoch, moment="upload_begin", rank=0), **fault)


def test_storage_in_a_bucket_is_looked_at_as_a_folder_is(run: RunJob, s3: S3) -> None:
    storage = s3.uri("runs")
    baseline = run(storage=storage).history

    judged = run(storage=storage, ops=(kill(epoch=1, step=2),), baseline=baseline)

    history = judged.history
    assert judged.verdict.status == "pass", judged.verdict.headline
    after_strike, at_end = of(history, StorageSeen)
    first, *_ = of(history, PartUploaded)
    assert (after_strike.op, at_end.op) == (0, None)
    assert {c.name: c.files for c in after_strike.checkpoints} == {first.checkpoint: first.files}
    kept = {e.checkpoint for e in of(history, Committed)}
    kept -= {e.checkpoint for e in of(history, CheckpointDeleted)}
    assert {c.name for c in at_end.checkpoints} == kept
    assert judged.result("checkpoints") == judged.result("leftovers") == "pass"


def test_where_storage_was_is_said_without_the_keys(run: RunJob, s3: S3) -> None:
    judged = run(storage=s3.uri("runs"))

    (called,), (searched,) = of(judged.history, FitCalled), of(judged.history, LeftoversSearched)
    assert called.storage_path.startswith(f"s3://{BUCKET}/runs/chaos-")
    assert called.storage_path.endswith(
        f"endpoint_override={s3.address}&scheme=http&region=us-east-1"
    )
    assert f"checkpoint directories in {called.storage_path}" in searched.places
    assert SECRET not in called.replaced["storage_path"].replace(BUCKET, "")
    assert not list(judged.directory.path.glob("*.pickle"))


def test_a_half_that_was_committed_is_found_in_the_bucket(run: RunJob, s3: S3) -> None:
    baseline = run(storage=s3.uri("runs")).history
    torn = in_upload(2, torn_checkpoint=TornCheckpoint())

    judged = run(storage=s3.uri("runs"), ops=(torn,), baseline=baseline)

    assert judged.result("checkpoints") == "fail"


def test_of_an_upload_whose_writer_dies_a_bucket_holds_nothing(run: RunJob, s3: S3) -> None:
    baseline = run(storage=s3.uri("runs")).history
    torn = in_upload(1, torn_checkpoint=TornCheckpoint(worker_dies=True))

    judged = run(storage=s3.uri("runs"), ops=(torn,), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    committed = {e.checkpoint for e in of(judged.history, Committed)}
    assert {c.name for c in of(judged.history, StorageSeen)[0].checkpoints} <= committed
    assert not of(judged.history, Leftover)


def test_an_upload_that_s3_refuses_is_charged_once(run: RunJob, s3: S3) -> None:
    baseline = run(storage=s3.uri("runs")).history

    judged = run(
        storage=s3.uri("runs"), ops=(in_upload(1, fail_upload=FailUpload()),), baseline=baseline
    )

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert [e.charged for e in of(judged.history, FailureDecided)] == ["failures"]


def test_a_bucket_that_cannot_be_looked_at_leaves_the_verdict_unknown(
    run: RunJob, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> None:
        raise OSError("ACCESS_DENIED")

    baseline = run(storage=s3.uri("runs")).history
    monkeypatch.setattr("chaos.launch.raytrain.bucket.RemoteStorage._list_files", unreadable)

    judged = run(storage=s3.uri("runs"), baseline=baseline)

    (failed,) = of(judged.history, ObserverFailed)
    assert "s3://" in failed.where
    assert judged.verdict.status == "inconclusive"
    assert judged.result("checkpoints") == "inconclusive"
