"""A full disk takes what there is room for."""

import errno
from pathlib import Path

import pytest

from chaos.faults.disk_full import DiskFull
from chaos.probe.process_identity import HERE
from chaos.run.armed_faults import ArmedFaults
from tests.probe.wrapped_storage import as_rank_1 as as_rank_1  # noqa: PLC0414 - a fixture
from tests.probe.wrapped_storage import effects, storage_with, upload


def test_a_full_disk_takes_what_there_is_room_for(tmp_path: Path) -> None:
    storage = storage_with(tmp_path, DiskFull(after_bytes=3))

    with pytest.raises(OSError, match="No space left") as raised:
        upload(storage, tmp_path, a=b"12345")

    assert raised.value.errno == errno.ENOSPC
    assert (tmp_path / f"r/c{HERE.upload_count}/a").read_bytes() == b"123"
    assert effects(tmp_path) == [(0, "raised")]
    assert (upload(storage, tmp_path, a=b"12345") / "a").read_bytes() == b"12345"


def test_a_disk_on_which_an_upload_just_fits_did_no_harm(tmp_path: Path) -> None:
    upload(storage_with(tmp_path, DiskFull(after_bytes=6)), tmp_path, a=b"123", b=b"456")

    assert effects(tmp_path) == []
    assert ArmedFaults(tmp_path / "storage-faults").find_effect(0) is None
