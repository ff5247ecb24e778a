"""S3, wrapped: what Ray asks of it, and faults in a bucket that moto's server keeps."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from chaos.faults.fail_upload import FailUpload
from chaos.faults.torn_checkpoint import TornCheckpoint
from chaos.probe.process_identity import HERE
from tests.probe.wrapping import being, wrapped
from tests.s3 import WHY_NOT, is_there, s3_server


def s3_at(endpoint: str) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        access_key="a",
        secret_key="b",
        region="us-east-1",
        scheme="http",
        endpoint_override=endpoint,
        allow_bucket_creation=True,
    )


@pytest.fixture
def bucket() -> Iterator[fs.S3FileSystem]:
    if not is_there():
        pytest.skip(WHY_NOT)
    with s3_server() as s3:
        storage = s3_at(s3.address)
        storage.create_dir("bucket")
        yield storage


def test_ray_is_told_that_it_is_s3_and_uploads_with_one_thread(tmp_path: Path) -> None:
    inner = s3_at("127.0.0.1:9")
    storage = wrapped(inner, tmp_path, FailUpload(), root="bucket/run")

    assert isinstance(storage, fs.S3FileSystem)
    assert not isinstance(storage, fs.LocalFileSystem)
    assert storage.type_name == "s3"
    assert pickle.loads(pickle.dumps(storage)) == storage == inner


def upload(storage: fs.FileSystem, source: Path) -> bytes:
    """Upload a folder as Ray does to S3, and give what is there of its file then."""
    HERE.upload_count += 1
    target = f"bucket/run/c{HERE.upload_count}"
    storage.create_dir(target)
    fs.copy_files(str(source), target, destination_filesystem=storage, use_threads=False)
    with storage.open_input_stream(f"{target}/f") as file:
        return bytes(file.read())


def test_uploads_to_a_bucket_fail_and_tear_as_on_a_disk(
    bucket: fs.S3FileSystem, tmp_path: Path
) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    refuses = wrapped(bucket, tmp_path / "1", FailUpload(), root="bucket/run")
    tears = wrapped(bucket, tmp_path / "2", TornCheckpoint(), root="bucket/run")
    source = tmp_path / "source"
    source.mkdir()
    (source / "f").write_bytes(b"0123456789")

    with being(1):
        with pytest.raises(OSError, match="refused"):
            upload(refuses, source)

        assert upload(refuses, source) == b"0123456789"
        assert upload(tears, source) == b"01234"
