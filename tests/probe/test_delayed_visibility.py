"""What is hidden is not seen by any rank until its time."""

from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from ray.train import Checkpoint
from ray.train.v2._internal.execution.storage import delete_fs_path

from chaos.faults.delayed_visibility import DelayedVisibility
from chaos.probe.process_identity import HERE
from tests.probe.wrapped_storage import as_rank_1 as as_rank_1  # noqa: PLC0414 - a fixture
from tests.probe.wrapped_storage import effects, storage_with, upload
from tests.probe.wrapping import being, wrapped


def test_what_is_shown_late_is_downloaded_even_from_the_local_disk(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c/f").write_bytes(b"abc")
    storage = wrapped(fs.LocalFileSystem(), tmp_path, DelayedVisibility(for_s=9), armed=False)

    with Checkpoint(tmp_path / "c", storage).as_directory() as seen:
        assert seen != str(tmp_path / "c")
        assert Path(seen, "f").read_bytes() == b"abc"


def test_what_is_hidden_is_not_there_for_any_rank_until_its_time(tmp_path: Path) -> None:
    storage = storage_with(tmp_path, DelayedVisibility(for_s=600))
    older = upload(storage_with_none(tmp_path), tmp_path, a=b"1")

    target = upload(storage, tmp_path, a=b"1")

    assert effects(tmp_path) == []
    with being(0, attempt=1):
        assert storage.get_file_info(str(target)).type == fs.FileType.NotFound
        listed = storage.get_file_info(fs.FileSelector(str(tmp_path / "r")))
        assert [info.path for info in listed] == [str(older)]
        for open_it in (storage.open_input_file, storage.open_input_stream):
            with pytest.raises(FileNotFoundError):
                open_it(str(target / "a"))
    assert effects(tmp_path) == [(0, "raised")]


def test_what_is_hidden_can_be_removed_and_is_not_looked_for_by_that(tmp_path: Path) -> None:
    storage = storage_with(tmp_path, DelayedVisibility(for_s=600))
    target = upload(storage, tmp_path, a=b"1")

    with being(None), HERE.mark_removal():
        delete_fs_path(storage, str(target))

    assert not target.exists()
    assert effects(tmp_path) == []


def test_whoever_looks_after_a_removal_is_turned_away_as_before(tmp_path: Path) -> None:
    storage = storage_with(tmp_path, DelayedVisibility(for_s=600))
    target = upload(storage, tmp_path, a=b"1")

    with being(None), HERE.mark_removal():
        storage.get_file_info(str(target))

    with being(0, attempt=1):
        assert storage.get_file_info(str(target)).type == fs.FileType.NotFound


def storage_with_none(folder: Path) -> Any:
    return wrapped(fs.LocalFileSystem(), folder, root=str(folder / "r"))


def test_what_was_hidden_is_seen_later(tmp_path: Path) -> None:
    storage = storage_with(tmp_path, DelayedVisibility(for_s=1e-9))
    target = upload(storage, tmp_path, a=b"1")

    seen = [storage.get_file_info(str(target)).type for _ in range(2)]

    assert seen == [fs.FileType.NotFound, fs.FileType.Directory]
