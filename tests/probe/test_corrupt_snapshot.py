"""The controller's list of checkpoints is cut."""

from pathlib import Path

from chaos.faults.corrupt_snapshot import CorruptSnapshot
from tests.probe.wrapped_storage import as_rank_1 as as_rank_1  # noqa: PLC0414 - a fixture
from tests.probe.wrapped_storage import effects, storage_with
from tests.probe.wrapping import SNAPSHOT, being


def test_the_controllers_list_is_cut_as_often_as_it_is_to_be(tmp_path: Path) -> None:
    storage = storage_with(tmp_path, CorruptSnapshot(times=2))
    path, kept = tmp_path / "r" / SNAPSHOT, []

    with being(None):
        for _ in range(3):
            with storage.open_output_stream(str(path)) as file:
                file.write(b"01234567")
            kept.append(path.read_bytes())

    assert kept == [b"0123", b"0123", b"01234567"]
    assert effects(tmp_path) == [(0, "cut")] * 2
