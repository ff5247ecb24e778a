"""Wrapped storage is what it wraps until a fault is due; then it is that fault, and says so."""

import errno
import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs
from ray.train import Checkpoint
from ray.train.v2._internal.execution.storage import delete_fs_path

from chaos.faults.corrupt_snapshot import CorruptSnapshot
from chaos.faults.delayed_visibility import DelayedVisibility
from chaos.faults.disk_full import DiskFull
from chaos.faults.fail_upload import FailUpload
from chaos.faults.slow_upload import SlowUpload
from chaos.faults.torn_checkpoint import TornCheckpoint
from chaos.model.event import StorageFaulted
from chaos.probe.process_identity import HERE
from chaos.run.armed_faults import ArmedFaults
from chaos.run.journal import read_history
from tests.probe.wrapping import SNAPSHOT, being, wrapped

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


@pytest.fixture(autouse=True)
def as_rank_1() -> Iterator[None]:
    with being(1):
        yield


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


def test_what_is_shown_late_is_downloaded_even_from_the_local_disk(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c/f").write_bytes(b"abc")
    storage = wrapped(fs.LocalFileSystem(), tmp_path, DelayedVisibility(for_s=9), armed=False)

    with Checkpoint(tmp_path / "c", storage).as_directory() as seen:
        assert seen != str(tmp_path / "c")
        assert Path(seen, "f").read_bytes() == b"abc"


def effects(folder: Path) -> list[tuple[int, str]]:
    """Return what the journals say that storage did."""
    found = read_history(folder / "journals").select_events(StorageFaulted)
    return [(event.op, event.effect) for _, event in found]


def upload(storage: fs.FileSystem, folder: Path, **files: bytes) -> Path:
    """Upload some files as Ray does, with its threads; give the folder that they are to be in."""
    HERE.upload_count += 1
    source, target = folder / f"source-{HERE.upload_count}", folder / f"r/c{HERE.upload_count}"
    source.mkdir()
    for name, content in files.items():
        (source / name).write_bytes(content)
    storage.create_dir(str(target))
    fs.copy_files(str(source), str(target), destination_filesystem=storage)
    return target


def storage_with(folder: Path, *faults: Any) -> Any:
    (folder / "r").mkdir()
    return wrapped(fs.LocalFileSystem(), folder, *faults, root=str(folder / "r"))


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


@pytest.mark.parametrize("slow", [SlowUpload(delay_s=0.01), SlowUpload(bytes_per_s=1000)])
def test_a_slow_upload_arrives_whole(tmp_path: Path, slow: SlowUpload) -> None:
    storage = storage_with(tmp_path, slow)

    target = upload(storage, tmp_path, a=b"a" * 7, b=b"b" * 3)

    assert [(target / name).read_bytes() for name in "ab"] == [b"a" * 7, b"b" * 3]
    assert effects(tmp_path) == [(0, "delayed")]


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


def test_a_remote_storage_is_wrapped_as_well(tmp_path: Path) -> None:
    storage = wrapped(fs._MockFileSystem(), tmp_path, TornCheckpoint(), root="bucket/run")
    storage.create_dir("bucket/run/c1")
    with storage.open_output_stream("bucket/run/c1/f") as file:
        file.write(b"0123456789")

    with storage.open_input_stream("bucket/run/c1/f") as file:
        assert file.read() == b"01234"
    assert not isinstance(storage, fs.LocalFileSystem)
