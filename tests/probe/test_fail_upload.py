"""An upload fails as often as it is to, for the rank that it is armed for."""

from pathlib import Path

import pytest

from chaos.faults.disk_full import DiskFull
from chaos.faults.fail_upload import FailUpload
from chaos.faults.torn_checkpoint import TornCheckpoint
from chaos.run.armed_faults import ArmedFaults
from tests.probe.wrapped_storage import as_rank_1 as as_rank_1  # noqa: PLC0414 - a fixture
from tests.probe.wrapped_storage import effects, storage_with, upload
from tests.probe.wrapping import being


def test_an_upload_fails_as_often_as_it_is_to_and_all_its_files_are_one(tmp_path: Path) -> None:
    storage = storage_with(tmp_path, FailUpload(times=2, error="no"))

    for _ in range(2):
        with pytest.raises(OSError, match="no"):
            upload(storage, tmp_path, a=b"1", b=b"2", c=b"3")

    assert (upload(storage, tmp_path, a=b"1") / "a").read_bytes() == b"1"
    assert effects(tmp_path) == [(0, "raised")] * 2
    assert "raised `no`" in (ArmedFaults(tmp_path / "storage-faults").find_effect(0) or "")


@pytest.mark.parametrize("rank", [0, None])
def test_only_the_rank_that_it_is_armed_for_is_struck(tmp_path: Path, rank: int | None) -> None:
    storage = storage_with(tmp_path, FailUpload(), TornCheckpoint(), DiskFull())

    with being(rank):
        target = upload(storage, tmp_path, a=b"12")

    assert (target / "a").read_bytes() == b"12"
    assert effects(tmp_path) == []
