"""What a process puts into a store is written down, and what was there before is not harmed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from chaos.errors import ForeignFileError, RemoteStoreError
from chaos.launch.files_outside import clean_outside_files
from chaos.model.event import WroteOutside
from chaos.model.history import History
from chaos.probe.address import RunAddress
from chaos.probe.write_ledger import (
    WriteLedger,
    WriteLimits,
    load_ledger,
    mark_training_begin,
    start_ledger,
)
from chaos.run.clock import SystemClock
from chaos.run.journal import Journal, read_history
from tests.objects.store import BUCKET, client_of, coast, empty, keys
from tests.s3 import S3, WHY_NOT, is_there

pytestmark = pytest.mark.skipif(not is_there(), reason=WHY_NOT)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with coast() as server:
        yield server


@pytest.fixture
def store(s3: S3, tmp_path: Path) -> Iterator[Any]:
    """Give a client in a process of an audit; `theirs` was there before."""
    empty(s3)
    client = client_of(s3)
    client.put_object(Bucket=BUCKET, Key="theirs", Body=b"of last week")
    ledger = tmp_path / "audit/runs/1/nodes/node-0/written.jsonl"
    ledger.parent.mkdir(parents=True)
    start_ledger(WriteLedger(ledger, (), WriteLimits(tmp_path / "audit", is_local_only=True)))
    yield client
    start_ledger(None)


def put(store: Any, key: str) -> None:
    store.put_object(Bucket=BUCKET, Key=key, Body=b"of today")


def lines(tmp_path: Path) -> list[tuple[str, str, bool]]:
    ledger = tmp_path / "audit/runs/1/nodes/node-0/written.jsonl"
    found = [(line.path, line.how, line.is_output) for line in load_ledger(ledger)]
    return [(path.removeprefix("s3://coast/"), how, out) for path, how, out in found]


def settled(tmp_path: Path) -> History:
    start_ledger(None)
    (tmp_path / "audit/runs/1/journals").mkdir()
    run = RunAddress(tmp_path / "audit/runs/1", "0" * 8, "none:")
    journal = Journal(run.directory / "journals", "harness", role="harness", clock=SystemClock())
    for event in clean_outside_files(run, WriteLimits(tmp_path / "audit", is_local_only=True)):
        journal.add(event)
    journal.close()
    return read_history(run.directory / "journals")


@pytest.mark.parametrize("way", ["put", "copy", "parts", "delete", "delete many"])
def test_an_object_that_was_there_before_is_not_harmed(
    store: Any, tmp_path: Path, way: str
) -> None:
    theirs = {"Bucket": BUCKET, "Key": "theirs"}
    put(store, "own")
    acts: dict[str, Callable[[], object]] = {
        "put": lambda: put(store, "theirs"),
        "copy": lambda: store.copy_object(**theirs, CopySource={"Bucket": BUCKET, "Key": "own"}),
        "parts": lambda: store.create_multipart_upload(**theirs),
        "delete": lambda: store.delete_object(**theirs),
        "delete many": lambda: store.delete_objects(
            Bucket=BUCKET, Delete={"Objects": [{"Key": "own"}, {"Key": "theirs"}]}
        ),
    }

    with pytest.raises(ForeignFileError, match="s3://coast/theirs, which was there before"):
        acts[way]()

    assert store.get_object(**theirs)["Body"].read() == b"of last week"
    assert store.get_object(Bucket=BUCKET, Key="own")["Body"].read() == b"of today"
    assert ("theirs", "refused", False) in lines(tmp_path)


def test_what_training_has_put_is_removed_and_nothing_else_is(
    store: Any, s3: S3, tmp_path: Path
) -> None:
    put(store, "data")
    mark_training_begin()
    put(store, "saved")
    put(store, "saved")
    mine = store.create_multipart_upload(Bucket=BUCKET, Key="begun")["UploadId"]
    store.upload_part(Bucket=BUCKET, Key="begun", UploadId=mine, PartNumber=1, Body=b"1")
    start_ledger(None)
    put(store, "of another program")
    store.create_multipart_upload(Bucket=BUCKET, Key="begun by another")

    history = settled(tmp_path)

    assert sorted(keys(s3)) == ["begun by another", "data", "of another program", "theirs"]
    told = {event.path: event.removed for _, event in history.select_events(WroteOutside)}
    assert told == {"s3://coast/data": False, "s3://coast/saved": True}


def test_what_cannot_be_removed_is_not_said_to_be(store: Any, tmp_path: Path) -> None:
    mark_training_begin()
    put(store, "saved")
    way = tmp_path / "audit/runs/1/nodes/node-0/stores.jsonl"
    assert way.stat().st_mode & 0o777 == 0o600
    way.write_text("")

    history = settled(tmp_path)

    assert [event.removed for _, event in history.select_events(WroteOutside)] == [False]


def test_a_store_that_is_not_here_is_written_to_if_it_is_named(tmp_path: Path) -> None:
    # Nothing is sent: a client without a retry would wait for an address that is nobody's.
    away = boto3.client(
        "s3",
        endpoint_url="https://store.example.invalid",
        region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )
    ledger = tmp_path / "written.jsonl"
    start_ledger(WriteLedger(ledger, (), WriteLimits(tmp_path / "audit", is_local_only=True)))
    try:
        with pytest.raises(RemoteStoreError, match="--allow-writes s3://coast/run"):
            put(away, "run/state.pt")
    finally:
        start_ledger(None)

    assert [line.how for line in load_ledger(ledger)] == ["remote"]
    named = WriteLimits(tmp_path, objects=("s3://coast/run",), is_local_only=True)
    assert named.has_allowed_name("s3://coast/run/state.pt")
    assert not named.has_allowed_name("s3://coast/runs/state.pt")
