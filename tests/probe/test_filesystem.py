"""Wrapped storage is what it wraps until a fault is due; then it is that fault, and says so."""

import pickle
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs
from ray.train import Checkpoint

from chaos.faults.corrupt_snapshot import CorruptSnapshot
from chaos.faults.delayed_visibility import DelayedVisibility
from chaos.faults.disk_full import DiskFull
from chaos.faults.fail_upload import FailUpload
from chaos.faults.slow_upload import SlowUpload
from chaos.faults.torn_checkpoint import TornCheckpoint
from tests.probe.wrapped_storage import as_rank_1 as as_rank_1  # noqa: PLC0414 - a fixture
from tests.probe.wrapped_storage import effects, storage_with, upload
from tests.probe.wrapping import wrapped

EVERY = (FailUpload(), TornCheckpoint(), DiskFull(), DelayedVisibility(for_s=9), CorruptSnapshot())
names = st.sampled_from(["a", "b", "c.gz", "d/a", "d/e/f", "d", "nowhere/x", "ä b"])
contents = st.binary(max_size=40)
moves = st.one_of(
    st.tuples(st.just("write"), names, contents),
    st.tuples(st.just("append"), names, contents),
    st.tuples(st.just("read"), names),
    st.tuples(st.just("seek"), names),
    st.tuples(st.just("look"), names),
    st.tuples(st.just("list"), names, st.booleans(), st.booleans()),
    st.tuples(st.just("make"), names, st.booleans()),
    st.tuples(st.just("move"), names, names),
    st.tuples(st.just("copy"), names, names),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("delete_folder"), names),
    st.tuples(st.just("empty"), names, st.booleans()),
)


def carried_out(storage: fs.FileSystem, root: str, move: tuple[Any, ...]) -> object:
    """Return what one use of storage comes to, with the root's own name left out."""
    act, name, *more = move
    try:
        return getattr(Use(storage, root), act)(f"{root}/{name}", *more)
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        return type(error), number, str(error).replace(root, "")


@dataclass
class Use:
    """All that one can do with storage."""

    storage: fs.FileSystem
    root: str

    def write(self, path: str, content: bytes) -> object:
        with self.storage.open_output_stream(path) as file:
            return file.write(content)

    def append(self, path: str, content: bytes) -> object:
        with self.storage.open_append_stream(path) as file:
            return file.write(content)

    def read(self, path: str) -> object:
        with self.storage.open_input_stream(path) as file:
            return file.read()

    def seek(self, path: str) -> object:
        with self.storage.open_input_file(path) as file:
            return file.size(), file.read_at(3, min(1, file.size()))

    def look(self, path: str) -> object:
        return _told(self.storage.get_file_info(path), self.root)

    def list(self, path: str, allow: bool, deep: bool) -> object:
        chosen = fs.FileSelector(path, allow_not_found=allow, recursive=deep)
        return sorted(_told(info, self.root) for info in self.storage.get_file_info(chosen))

    def make(self, path: str, deep: bool) -> None:
        self.storage.create_dir(path, recursive=deep)

    def move(self, path: str, to: str) -> None:
        self.storage.move(path, f"{self.root}/{to}")

    def copy(self, path: str, to: str) -> None:
        self.storage.copy_file(path, f"{self.root}/{to}")

    def delete(self, path: str) -> None:
        self.storage.delete_file(path)

    def delete_folder(self, path: str) -> None:
        self.storage.delete_dir(path)

    def empty(self, path: str, missing: bool) -> None:
        self.storage.delete_dir_contents(path, missing_dir_ok=missing)


def _told(info: fs.FileInfo, root: str) -> tuple[str, str, int]:
    return info.path.replace(root, ""), info.type.name, info.size or 0


@given(st.lists(moves, max_size=12))
def test_storage_on_which_nothing_is_due_is_what_it_wraps(made: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder, "1"), Path(folder, "2")
        ours.mkdir()
        theirs.mkdir()
        local = fs.LocalFileSystem()
        storage = wrapped(local, Path(folder), *EVERY, root=str(ours), armed=False)

        for move in made:
            assert carried_out(storage, str(ours), move) == carried_out(local, str(theirs), move)


def test_it_answers_questions_about_itself_as_what_it_wraps_does(tmp_path: Path) -> None:
    local = fs.LocalFileSystem()
    storage = wrapped(local, tmp_path, FailUpload())

    assert isinstance(storage, fs.LocalFileSystem)
    assert not isinstance(storage, fs.S3FileSystem)
    assert storage.type_name == local.type_name == "local"
    assert storage == local
    assert storage != fs.SubTreeFileSystem("/", local)
    assert storage.normalize_path("a/./b") == local.normalize_path("a/./b")


def test_it_survives_the_way_into_another_process(tmp_path: Path) -> None:
    storage = wrapped(fs.LocalFileSystem(), tmp_path, FailUpload())

    again = pickle.loads(pickle.dumps(storage))

    assert again == storage
    assert again.layer == storage.layer
    with pytest.raises(OSError, match="refused"):
        again.open_output_stream(str(tmp_path / "f"))


def test_a_checkpoint_on_the_local_disk_is_read_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()

    with Checkpoint(tmp_path / "c", wrapped(fs.LocalFileSystem(), tmp_path)).as_directory() as seen:
        assert seen == str(tmp_path / "c")


@pytest.mark.parametrize("slow", [SlowUpload(delay_s=0.01), SlowUpload(bytes_per_s=1000)])
def test_a_slow_upload_arrives_whole(tmp_path: Path, slow: SlowUpload) -> None:
    storage = storage_with(tmp_path, slow)

    target = upload(storage, tmp_path, a=b"a" * 7, b=b"b" * 3)

    assert [(target / name).read_bytes() for name in "ab"] == [b"a" * 7, b"b" * 3]
    assert effects(tmp_path) == [(0, "delayed")]
