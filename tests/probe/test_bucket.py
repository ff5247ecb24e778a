"""The way to storage elsewhere: who can read it, what it lists, and what is shown of it."""

from pathlib import Path

import pytest
from pyarrow import fs

from chaos.launch.raytrain.bucket import (
    RemoteStorage,
    hide_keys,
    join_uri,
    load_remote_storage,
    remove_remote_storage,
    save_remote_storage,
)
from chaos.run.directory import RunDirectory
from chaos.run.file_digest import file_digest, folder_digests


def remote(folder: Path) -> RemoteStorage:
    return RemoteStorage(fs.LocalFileSystem(), str(folder), "run", "file:///there")


def test_the_way_is_for_this_user_alone_and_is_gone_when_it_is_removed(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    assert load_remote_storage(directory) is None

    save_remote_storage(directory, remote(tmp_path))
    save_remote_storage(directory, remote(tmp_path))  # of a driver that was started again

    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert load_remote_storage(directory) == remote(tmp_path)

    remove_remote_storage(directory)

    assert load_remote_storage(directory) is None


def test_a_way_that_cannot_be_gone_is_an_error_of_the_system(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    save_remote_storage(directory, remote(tmp_path))
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"not a pickle")

    with pytest.raises(OSError, match="cannot be opened here"):
        load_remote_storage(directory)


def test_directories_are_listed_with_the_digests_that_a_folder_has(tmp_path: Path) -> None:
    checkpoint, named = tmp_path / "run" / "checkpoint_1", tmp_path / "run" / "own" / "epoch_000"
    (checkpoint / "deep").mkdir(parents=True)
    (checkpoint / "deep" / "a.pt").write_bytes(b"1" * 3_000_000)
    (checkpoint / "b.pt").write_bytes(b"")
    named.mkdir(parents=True)
    (named / "c.pt").write_bytes(b"2")
    (tmp_path / "run" / "checkpoint_2").mkdir()  # a marker in a bucket, with nothing below it
    (tmp_path / "run" / "snapshot.json").write_text("{}")
    (tmp_path / "other" / "checkpoint_3").mkdir(parents=True)
    (tmp_path / "other" / "checkpoint_3" / "c.pt").write_bytes(b"1")

    found, own = remote(tmp_path).folders()

    assert (found.name, own.name) == ("checkpoint_1", "own")
    assert found.files == folder_digests(checkpoint)
    assert found.files["b.pt"] == file_digest(checkpoint / "b.pt")
    assert own.files == {"epoch_000/c.pt": file_digest(named / "c.pt")}
    names = ["checkpoint_1", "checkpoint_1/deep", "own", "own/epoch_000"]
    assert remote(tmp_path).folder_names() == names


def test_before_anything_was_stored_there_is_nothing(tmp_path: Path) -> None:
    assert remote(tmp_path / "not yet").folders() == ()


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://key:secret@bucket/a@b?c=d@e", "s3://bucket/a@b?c=d@e"),
        ("s3://bucket/a?scheme=http", "s3://bucket/a?scheme=http"),
        ("/home/a@b", "/home/a@b"),
    ],
)
def test_a_uri_is_shown_without_its_keys(uri: str, shown: str) -> None:
    assert hide_keys(uri) == shown


def test_a_folder_below_a_uri_stands_before_its_options() -> None:
    assert join_uri("s3://bucket/a/?scheme=http", "run") == "s3://bucket/a/run?scheme=http"
    assert join_uri("s3://bucket", "run") == "s3://bucket/run"
