"""Half of a torn checkpoint is kept, and nobody is told."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from chaos.faults.torn_checkpoint import TornCheckpoint
from tests.probe.wrapped_storage import as_rank_1 as as_rank_1  # noqa: PLC0414 - a fixture
from tests.probe.wrapped_storage import effects, storage_with, upload
from tests.probe.wrapping import being, wrapped


def test_half_of_what_is_torn_is_kept_and_nobody_is_told(tmp_path: Path) -> None:
    storage = storage_with(tmp_path, TornCheckpoint(file="*.pt"))

    target = upload(storage, tmp_path, **{"model.pt": b"0123456789", "notes": b"whole"})

    assert (target / "model.pt").read_bytes() == b"01234"
    assert (target / "notes").read_bytes() == b"whole"
    assert effects(tmp_path) == [(0, "cut")]


@given(st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=9))
def test_a_half_is_the_first_half_whatever_pieces_it_came_in(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    with tempfile.TemporaryDirectory() as name, being(1):
        folder = Path(name)
        storage = storage_with(folder, TornCheckpoint())
        with storage.open_output_stream(str(folder / "f")) as file:
            for piece in pieces:
                file.write(piece)

        assert (folder / "f").read_bytes() == whole[: len(whole) // 2]
        assert effects(folder) == [(0, "cut")]


def test_a_remote_storage_is_wrapped_as_well(tmp_path: Path) -> None:
    storage = wrapped(fs._MockFileSystem(), tmp_path, TornCheckpoint(), root="bucket/run")
    storage.create_dir("bucket/run/c1")
    with storage.open_output_stream("bucket/run/c1/f") as file:
        file.write(b"0123456789")

    with storage.open_input_stream("bucket/run/c1/f") as file:
        assert file.read() == b"01234"
    assert not isinstance(storage, fs.LocalFileSystem)
