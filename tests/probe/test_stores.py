"""The calls of boto3 and of s3fs, told, and their answers lost, in a store of moto's."""

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
import s3fs
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError

from chaos.probe import write_ledger
from chaos.probe.stores import ClientCall, Steps, StoreRequest, pause_watch
from tests.s3 import BUCKET, S3, WHY_NOT, is_there, s3_server

pytestmark = pytest.mark.skipif(not is_there(), reason=WHY_NOT)
CHANGES = ("PutObject", "CopyObject", "CompleteMultipartUpload", "DeleteObject", "DeleteObjects")


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with s3_server() as server:
        yield server


@pytest.fixture
def store(s3: S3) -> Any:
    return client(s3)


def client(s3: S3, **config: Any) -> Any:
    env = s3.env
    return boto3.client(
        "s3",
        endpoint_url=env["AWS_ENDPOINT_URL"],
        region_name=env["AWS_REGION"],
        aws_access_key_id="a",
        aws_secret_access_key="b",
        config=Config(**config),
    )


def filesystem(s3: S3) -> Any:
    s3fs.S3FileSystem.clear_instance_cache()
    return s3fs.S3FileSystem(
        key="a", secret="b", endpoint_url=s3.env["AWS_ENDPOINT_URL"], use_listings_cache=False
    )


@contextlib.contextmanager
def surrounded(around: Callable[[ClientCall], Steps]) -> Iterator[None]:
    write_ledger.set_call_handler(around)
    try:
        yield
    finally:
        write_ledger._around.clear()


@pytest.fixture
def told() -> Iterator[list[tuple[str, str]]]:
    found: list[tuple[str, str]] = []

    def around(call: ClientCall) -> Steps:
        answer = yield call.request
        found.extend((call.operation, path) for path in call.paths if call.operation in CHANGES)
        return answer

    with surrounded(around):
        yield found


def test_each_way_in_which_boto3_changes_a_store_is_told(
    store: Any, told: list[tuple[str, str]]
) -> None:
    where = {"Bucket": BUCKET}
    store.put_object(**where, Key="a", Body=b"1")
    store.upload_fileobj(io.BytesIO(b"2"), BUCKET, "b")
    in_parts = TransferConfig(multipart_threshold=1)
    store.upload_fileobj(io.BytesIO(b"3"), BUCKET, "c", Config=in_parts)
    store.copy_object(**where, Key="d", CopySource={**where, "Key": "c"})
    store.delete_object(**where, Key="a")
    store.delete_objects(**where, Delete={"Objects": [{"Key": "b"}, {"Key": "c"}]})

    assert told == [
        ("PutObject", "s3://chaos-test/a"),
        ("PutObject", "s3://chaos-test/b"),
        ("CompleteMultipartUpload", "s3://chaos-test/c"),
        ("CopyObject", "s3://chaos-test/d"),
        ("DeleteObject", "s3://chaos-test/a"),
        ("DeleteObjects", "s3://chaos-test/b"),
        ("DeleteObjects", "s3://chaos-test/c"),
    ]


def test_each_way_in_which_s3fs_changes_a_store_is_told(
    s3: S3, told: list[tuple[str, str]]
) -> None:
    files = filesystem(s3)
    files.pipe_file(f"{BUCKET}/f", b"1")
    with files.open(f"{BUCKET}/g", "wb") as file:
        file.write(b"2")
    files.mv(f"{BUCKET}/g", f"{BUCKET}/h")
    files.rm_file(f"{BUCKET}/f")

    assert told == [
        ("PutObject", "s3://chaos-test/f"),
        ("PutObject", "s3://chaos-test/g"),
        ("CopyObject", "s3://chaos-test/h"),
        ("DeleteObjects", "s3://chaos-test/g"),
        ("DeleteObject", "s3://chaos-test/f"),
    ]


def losing(times: int, sent: list[str]) -> Callable[[ClientCall], Steps]:
    """Lose so many answers to a put; `sent` has an entry for each that came."""

    def loses() -> bool:
        sent.append("done")
        return len(sent) <= times

    def around(call: ClientCall) -> Steps:
        is_put = call.operation == "PutObject"
        return (
            yield StoreRequest(call.operation, call.params, loses_answer=loses if is_put else None)
        )

    return around


def test_a_client_that_gets_no_answer_puts_the_object_once_more(store: Any, s3: S3) -> None:
    sent: list[str] = []
    with surrounded(losing(1, sent)):
        store.put_object(Bucket=BUCKET, Key="once", Body=b"1")
    assert len(sent) == 2

    sent.clear()
    with surrounded(losing(1, sent)):
        filesystem(s3).pipe_file(f"{BUCKET}/once", b"2")
    assert len(sent) == 2


def test_a_client_without_retries_raises_though_the_object_is_there(s3: S3) -> None:
    impatient = client(s3, retries={"total_max_attempts": 1})

    with surrounded(losing(1, [])), pytest.raises(ConnectionClosedError):
        impatient.put_object(Bucket=BUCKET, Key="raised", Body=b"1")

    assert impatient.get_object(Bucket=BUCKET, Key="raised")["Body"].read() == b"1"


def test_what_chaos_asks_for_itself_is_not_told_and_an_error_reaches_who_asked(store: Any) -> None:
    asked: list[str] = []

    def around(call: ClientCall) -> Steps:
        try:
            yield StoreRequest("HeadObject", {"Bucket": BUCKET, "Key": "nothing"})
        except Exception as error:  # noqa: BLE001
            asked.append(type(error).__name__)
        read = yield StoreRequest("GetObject", {"Bucket": BUCKET, "Key": "known"}, needs_body=True)
        asked.append(read["Body"].decode())
        return (yield call.request)

    store.put_object(Bucket=BUCKET, Key="known", Body=b"of today")
    with surrounded(around):
        store.put_object(Bucket=BUCKET, Key="x", Body=b"1")
        with pause_watch():
            store.put_object(Bucket=BUCKET, Key="y", Body=b"1")

    assert asked == ["ClientError", "of today"]


@pytest.mark.parametrize(
    ("endpoint", "is_local"),
    [
        ("http://127.0.0.1:9000", True),
        ("http://localhost:9000", True),
        ("http://minio.localhost", True),
        ("http://[::1]:9000", True),
        ("https://s3.amazonaws.com", False),
        ("https://127.example.org", False),
        ("http://10.0.0.7:9000", False),
    ],
)
def test_a_store_is_here_if_its_address_is(endpoint: str, is_local: bool) -> None:
    class Meta:
        endpoint_url = endpoint

    class Client:
        meta = Meta

    assert ClientCall(Client, "PutObject", {}).is_local is is_local
