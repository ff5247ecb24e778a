"""Files that a job saves and loads: as torch does it, and remembered."""

import inspect
import io
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint._async_process_executor import (
    _ProcessBasedAsyncCheckpointExecutor,
)
from torch.distributed.checkpoint._async_thread_executor import _ThreadBasedAsyncCheckpointExecutor
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

from chaos.model.event import (
    AnyEvent,
    Component,
    FileLoaded,
    FileSaveBegun,
    FileSaved,
    Repositioned,
)
from chaos.model.places import START
from chaos.probe.cursor import Cursor, Recorder
from chaos.probe.job_files import JobFiles
from chaos.probe.saves import ResumedSave, SaveFolder
from chaos.probe.state.files import watch_files, watch_libraries
from chaos.resume.resume_place import StepKeys
from chaos.run.directory import EPOCH_LENGTHS_FILE
from chaos.run.file_digest import WHOLE_MAX, file_digest, folder_digests
from chaos.run.record_file import write_fields
from tests.probe.scripted import Scripted

E = TypeVar("E")


@dataclass
class Rank:
    """One rank of one attempt, with torch's functions in its hands."""

    folder: Path
    attempt: int = 0
    rank: int = 0
    epoch: int = 0
    may_move: bool = True
    ranks: int = 1
    reported_epoch: int | None = None
    events: list[AnyEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cursor = Cursor(self.attempt, self.rank, self.epoch)
        record = Recorder(self.cursor, self.events.append, self._failed)
        self.saves = SaveFolder(self.folder / "saves")
        self.listener = Scripted()
        self.files = JobFiles(
            record,
            self.saves,
            self.listener,
            may_move=self.may_move and self.attempt > 0,
            ranks=self.ranks,
            reported_epoch=self.reported_epoch,
        )
        watch_files(self.files)

    def _failed(self, where: str, error: Exception) -> None:
        raise AssertionError(where) from error

    def resumes(self, *, is_fresh: bool) -> None:
        """Begin the first step, with the model that the run began with, or with another."""
        self.saves.record_state(0, self.rank, START, [Component(name="model", digest="first")])
        model = "model =first" if is_fresh else "model =later"
        self.files.enter_step(lambda: StepKeys(model=model))

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def path(self) -> Path:
        return self.folder / "own.pt"


New = Callable[..., Rank]


@pytest.fixture
def new(tmp_path: Path) -> Iterator[New]:
    real = torch.save, torch.load

    def make(**given: Any) -> Rank:
        torch.save, torch.load = real
        torch.serialization.save, torch.serialization.load = real
        return Rank(tmp_path, **given)

    yield make
    torch.save, torch.load = real
    torch.serialization.save, torch.serialization.load = real


def test_a_save_is_recorded_and_gives_the_file_that_torch_gives(new: New) -> None:
    rank = new()
    rank.cursor.step = 3

    for target in (rank.path, str(rank.path)):
        torch.save({"a": 1}, target)
    with rank.path.open("wb") as file:
        torch.save(obj={"a": 1}, f=file)

    saved = rank.of(FileSaved)
    assert torch.load(rank.path) == {"a": 1}
    assert len(rank.of(FileSaveBegun)) == len(saved) == 3
    assert (saved[-1].step, saved[-1].bytes) == (3, rank.path.stat().st_size)
    assert saved[-1].digest == file_digest(rank.path)


def test_the_first_load_of_what_an_earlier_attempt_saved_is_struck_inside(new: New) -> None:
    first = new()
    torch.save({"a": 1}, first.path)
    second = new(attempt=1)
    struck: list[int] = []
    second.listener.answer(earlier_save_entered=lambda: struck.append(len(second.of(FileLoaded))))

    torch.load(first.path)
    torch.load(first.path)

    assert struck == [0]


def test_a_file_that_was_whole_as_its_writer_died_has_its_place(new: New) -> None:
    first = new()
    first.cursor.epoch, first.cursor.step = 1, 4
    first.files.save_begins(first.path)  # and its end was never recorded
    first.path.write_bytes(saved_by_torch({"a": 1}))
    second = new(attempt=1)

    torch.load(first.path)

    (load,) = second.of(FileLoaded)
    assert (load.saved_attempt, load.saved_epoch, load.saved_step) == (0, 1, 4)


def test_a_file_that_was_torn_as_its_writer_died_has_none(new: New) -> None:
    first = new()
    first.files.save_begins(first.path)
    first.path.write_bytes(saved_by_torch({"a": 1})[:-40])
    second = new(attempt=1)

    with pytest.raises(RuntimeError):
        torch.load(first.path)

    (load,) = second.of(FileLoaded)
    assert load.saved_attempt is None
    assert load.error is not None


def test_a_load_of_what_this_attempt_or_nobody_saved_is_not_struck(new: New) -> None:
    rank = new(attempt=1)
    struck: list[str] = []
    rank.listener.answer(earlier_save_entered=lambda: struck.append("struck"))
    torch.save({"a": 1}, rank.path)
    (rank.folder / "data.pt").write_bytes(saved_by_torch({"b": 2}))

    torch.load(rank.path)
    torch.load(rank.folder / "data.pt")

    assert struck == []


def saved_by_torch(value: object) -> bytes:
    """Return the bytes of a file that was not saved in this run."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def test_what_is_no_file_passes_through(new: New) -> None:
    rank, buffer = new(), io.BytesIO()

    torch.save([1], buffer)
    buffer.seek(0)

    assert torch.load(buffer) == [1]
    assert rank.events == []


def test_what_a_load_read_is_traced_to_its_save_under_whatever_name(new: New) -> None:
    first = new(rank=1, epoch=2)
    torch.save({"a": 1}, first.path)
    moved = first.path.rename(first.folder / "elsewhere.pt")

    second = new(attempt=1)
    torch.load(moved)
    torch.save({"b": 1}, second.path)
    (second.folder / "copy.pt").write_bytes(second.path.read_bytes()[:300])
    with pytest.raises(RuntimeError):
        torch.load(second.folder / "copy.pt")

    found = second.of(FileLoaded)
    origin = (found[0].saved_attempt, found[0].saved_rank, found[0].saved_epoch)
    assert origin == (0, 1, 2)
    assert found[1].saved_attempt is None
    assert found[1].error is not None


def test_errors_are_torchs_own(new: New) -> None:
    rank = new()

    with pytest.raises(FileNotFoundError):
        torch.load(rank.folder / "missing.pt")
    with pytest.raises(RuntimeError, match="does not exist"):
        torch.save({}, rank.folder / "no" / "folder.pt")
    with pytest.raises(TypeError):
        torch.save()

    assert rank.of(FileSaved) == []


def test_what_is_saved_before_the_first_step_is_data_and_is_not_struck(new: New) -> None:
    rank = new()
    write_fields(rank.saves._folder / EPOCH_LENGTHS_FILE, {"0": 4})
    rank = new()
    rank.listener.answer(save_reached=lambda *_: lambda: None)

    assert rank.files.find_midpoint_stop(rank.path) is None
    rank.cursor.step = 1
    assert rank.files.find_midpoint_stop(rank.path) is not None


def test_a_save_in_halves_stands_still_in_the_middle_and_is_whole_in_the_end(new: New) -> None:
    rank = new()
    sizes: list[int] = []
    rank.listener.answer(save_reached=lambda *_: lambda: sizes.append(rank.path.stat().st_size))

    torch.save(torch.arange(100), rank.path)

    assert sizes == [rank.path.stat().st_size // 2]
    assert torch.equal(torch.load(rank.path), torch.arange(100))


def test_a_save_in_halves_has_the_bytes_of_one_at_once(new: New) -> None:
    # Two ranks that saved the same under one name, one of them in halves, left a mixture of both.
    rank = new()
    torch.save(torch.arange(9), rank.path)
    at_once = rank.path.read_bytes()
    rank.listener.answer(save_reached=lambda *_: lambda: None)

    torch.save(torch.arange(9), str(rank.path))

    assert rank.path.read_bytes() == at_once


def test_a_save_into_a_file_that_the_job_has_opened_stands_still_in_its_middle_too(
    new: New,
) -> None:
    rank, sizes = new(), list[int]()
    rank.listener.answer(save_reached=lambda *_: lambda: sizes.append(rank.path.stat().st_size))

    with rank.path.open("wb") as file:
        torch.save({"a": torch.ones(99)}, file)
        file.write(b"more")  # it is open still, and at its end

    whole = rank.path.read_bytes()
    assert sizes == [(len(whole) - 4) // 2]
    assert whole.endswith(b"more")
    assert torch.load(rank.path)["a"].sum() == 99


# -- a job that keeps its own files ---------------------------------------------------------------


def saved_at(rank: Rank, *, step: int, then_reports: bool) -> None:
    rank.cursor.step = step
    rank.files.leave_step()
    torch.save({"epoch": rank.cursor.epoch, "step": step}, rank.path)
    if then_reports:
        rank.files.report_begun()


@pytest.mark.parametrize(
    ("step", "then_reports", "goes_on"),
    [(4, True, (2, 0)), (2, False, (1, 2)), (0, False, (1, 0)), (0, True, (1, 0))],
)
def test_a_rank_goes_on_from_where_its_file_was_saved(
    new: New, step: int, then_reports: bool, goes_on: tuple[int, int]
) -> None:
    saved_at(new(epoch=1), step=step, then_reports=then_reports)

    rank = new(attempt=1)
    torch.load(rank.path)
    rank.files.enter_step()

    assert (rank.cursor.epoch, rank.cursor.step) == goes_on
    assert [(e.epoch, e.step, e.path) for e in rank.of(Repositioned)] == [
        (*goes_on, str(rank.path))
    ]
    assert rank.saves.find_furthest_position(1) == ResumedSave(1, 0, *goes_on, str(rank.path))


def test_a_step_after_the_save_means_that_it_did_not_end_its_epoch(new: New) -> None:
    first = new(epoch=1)
    saved_at(first, step=2, then_reports=False)
    first.cursor.step = 3
    first.files.leave_step()
    first.files.report_begun()

    rank = new(attempt=1)
    torch.load(rank.path)
    rank.files.enter_step()

    assert (rank.cursor.epoch, rank.cursor.step) == (1, 2)


def test_a_rank_that_loads_nothing_follows_the_one_that_did(new: New) -> None:
    saved_at(new(epoch=1), step=4, then_reports=True)
    leader = new(attempt=1, ranks=2)
    torch.load(leader.path)

    follower = new(attempt=1, rank=1, ranks=2)
    follower.files.enter_step()
    leader.files.enter_step()

    for rank in (leader, follower):
        assert (rank.cursor.epoch, rank.cursor.step) == (2, 0)
        assert [e.rank for e in rank.of(Repositioned)] == [rank.rank]
    assert leader.saves.find_furthest_position(1) is not None


@pytest.mark.parametrize("given", [{"attempt": 0}, {"attempt": 1, "may_move": False}])
def test_nobody_is_moved_in_the_first_attempt_or_with_a_checkpoint_of_rays(
    new: New, given: dict[str, Any]
) -> None:
    saved_at(new(epoch=1), step=4, then_reports=True)

    rank = new(**given)
    torch.load(rank.path)
    rank.files.enter_step()

    assert rank.cursor.epoch == 0


@pytest.mark.parametrize("returned", [True, False])
def test_a_rank_that_ends_without_a_step_is_moved_if_it_returned(new: New, returned: bool) -> None:
    saved_at(new(epoch=1), step=4, then_reports=True)

    rank = new(attempt=1)
    torch.load(rank.path)
    rank.files.train_fn_ended(returned=returned)

    assert rank.cursor.epoch == (2 if returned else 0)
    assert len(rank.of(Repositioned)) == returned


def test_a_file_that_is_read_after_the_first_step_moves_nobody(new: New) -> None:
    saved_at(new(epoch=1), step=4, then_reports=True)

    rank = new(attempt=1)
    rank.files.enter_step()
    torch.load(rank.path)

    assert rank.of(Repositioned) == []


def test_of_several_files_the_furthest_counts(new: New) -> None:
    saved_at(new(epoch=1), step=2, then_reports=False)
    early = (new().folder / "own.pt").rename(new().folder / "early.pt")
    saved_at(new(epoch=3), step=1, then_reports=False)

    rank = new(attempt=1)
    torch.load(rank.path)
    torch.load(early)
    rank.files.enter_step()

    assert (rank.cursor.epoch, rank.cursor.step) == (3, 1)


def side_by_side(new: New, *, logs: bool, state: bool, is_fresh: bool = False) -> list[Rank]:
    """Return two ranks of a second attempt that have read their logs, the state, or both.

    The state is of the end of epoch 0, the logs of step 3 and of step 2 of the next.
    """
    first = new()
    saved_at(first, step=4, then_reports=True)
    own = first.path.rename(first.folder / "state.pt")
    first.cursor.epoch, first.cursor.step = 1, 0
    written = []
    for step in (3, 2):
        saved_at(first, step=step, then_reports=False)
        written.append(first.path.rename(first.folder / f"log_{step}.pt"))
    found = []
    for number, log in enumerate(written):
        rank = new(attempt=1, rank=number, ranks=2)
        if state:
            torch.load(own)
        if logs:
            torch.load(log)
        found.append(rank)
    for rank in found:
        rank.resumes(is_fresh=is_fresh)
    return found


def place(rank: Rank) -> tuple[int, int]:
    return rank.cursor.epoch, rank.cursor.step


@pytest.mark.parametrize("logs", [False, True])
def test_ranks_go_on_by_the_file_on_which_they_agree(new: New, logs: bool) -> None:
    ranks = side_by_side(new, logs=logs, state=True)

    assert [place(rank) for rank in ranks] == [(1, 0), (1, 0)]
    assert {e.path for rank in ranks for e in rank.of(Repositioned)} == {str(ranks[0].path)}


@pytest.mark.parametrize(
    ("is_fresh", "places"), [(False, [(1, 3), (1, 2)]), (True, [(0, 0), (0, 0)])]
)
def test_where_they_agree_on_none_the_model_says_whether_anything_was_restored(
    new: New, is_fresh: bool, places: list[tuple[int, int]]
) -> None:
    ranks = side_by_side(new, logs=True, state=False, is_fresh=is_fresh)

    assert [place(rank) for rank in ranks] == places
    assert [len(rank.of(Repositioned)) for rank in ranks] == [int(not is_fresh)] * 2


def test_a_log_that_rank_0_alone_reads_moves_nobody_who_begins_with_a_fresh_model(
    new: New,
) -> None:
    saved_at(new(), step=3, then_reports=False)

    ranks = [new(attempt=1, rank=number, ranks=2) for number in (1, 0)]
    torch.load(ranks[0].path)
    for rank in ranks:
        rank.resumes(is_fresh=True)

    assert [place(rank) for rank in ranks] == [(0, 0), (0, 0)]
    assert ranks[0].saves.find_furthest_position(1) is None


def test_what_a_later_attempt_will_ask_of_the_first_is_settled_with_its_first_save(
    new: New,
) -> None:
    rank, settled = new(), list[str]()
    rank.listener.answer(first_save_done=lambda: settled.append("once"))

    torch.save([1], rank.path)
    torch.save([2], rank.path)

    assert settled == ["once"]


# -- digests of files ------------------------------------------------------------------------------


def test_a_folders_files_are_named_by_their_path_in_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"1")
    (tmp_path / "y").write_bytes(b"2")

    found = folder_digests(tmp_path)

    assert set(found) == {"a/x", "y"}
    assert len(set(found.values())) == 2


def test_a_large_file_is_known_by_its_size_in_a_folder_and_by_samples_alone(
    tmp_path: Path,
) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(WHOLE_MAX + 1)
    before = file_digest(large)
    with large.open("r+b") as file:
        file.seek(WHOLE_MAX)
        file.write(b"x")

    assert folder_digests(tmp_path) == {"large": f"size:{WHOLE_MAX + 1}"}
    assert file_digest(large) != before


def test_a_place_within_an_epoch_where_any_rank_saved_is_known_to_all(new: New) -> None:
    saver, other = new(epoch=1), new(epoch=1, rank=1)
    for rank in (saver, other):
        rank.cursor.step = 2
    assert not other.files.epoch_ends.has_save()

    torch.save({"epoch": 1}, saver.path)

    assert saver.files.epoch_ends.has_save()
    assert other.files.epoch_ends.has_save()
    other.cursor.step = 3
    assert not other.files.epoch_ends.has_save()
    assert not new(attempt=1, epoch=1).files.epoch_ends.has_save()


def test_the_head_of_an_epoch_is_looked_at_anyway(new: New) -> None:
    rank = new(epoch=1)
    torch.save({"epoch": 1}, rank.path)

    assert not rank.files.epoch_ends.has_save()


def test_a_saved_file_tells_what_it_counts(new: New) -> None:
    rank = new()
    torch.save({"epoch": 3, "model": {"w": torch.zeros(2)}, "lr": 0.1}, rank.path)
    torch.save(obj=7, f=rank.path)

    assert [saved.counts for saved in rank.of(FileSaved)] == [{"epoch": 3}, {}]


def resumed_at(new: New, place: tuple[int, int], lengths: dict[str, int], reported: int) -> Rank:
    """Return a rank that goes on from a checkpoint which came with the report of an epoch."""
    rank = new()
    write_fields(rank.folder / "saves" / EPOCH_LENGTHS_FILE, lengths)
    rank = new(attempt=1, may_move=False, reported_epoch=reported)
    rank.cursor.epoch, rank.cursor.step = place
    return rank


def test_a_step_after_an_epoch_that_was_reported_before_is_of_the_next(new: New) -> None:
    rank = resumed_at(new, (0, 3), {"0": 4, "1": 2}, reported=0)

    places = []
    for _ in range(4):
        rank.files.enter_step()
        rank.files.pass_reported_end()
        rank.cursor.step += 1
        places.append((rank.cursor.epoch, rank.cursor.step))

    assert places == [(0, 4), (1, 1), (1, 2), (1, 3)]
    assert rank.saves.has_mark("passed", 1, 0)
    assert not rank.saves.has_mark("passed", 1, 1)


def test_a_report_at_the_end_of_such_an_epoch_is_that_epochs_own(new: New) -> None:
    rank = resumed_at(new, (0, 4), {"0": 4, "1": 2}, reported=0)

    rank.files.report_begun()

    assert (rank.cursor.epoch, rank.cursor.step) == (0, 4)


def test_a_last_save_that_was_made_beside_training_is_reported_as_the_next_epoch(new: New) -> None:
    rank = resumed_at(new, (0, 4), {"0": 4, "1": 0}, reported=0)
    rank.files.background_save_begins(rank.folder / "sharded")

    rank.files.report_begun()

    assert (rank.cursor.epoch, rank.cursor.step) == (1, 0)


def put_back_after_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls, name in (
        (FileSystemWriter.__mro__[1], "write_data"),
        (HuggingFaceStorageWriter, "write_data"),
        (_ThreadBasedAsyncCheckpointExecutor, "execute_save"),
        (_ProcessBasedAsyncCheckpointExecutor, "execute_save"),
    ):
        monkeypatch.setattr(cls, name, vars(cls)[name])
        monkeypatch.setattr(cls, "_chaos_watches", True, raising=False)
        del cls._chaos_watches


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_save_that_is_handed_over_is_of_that_place(
    new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = new()
    rank.cursor.step = 2
    put_back_after_the_test(monkeypatch)

    watch_libraries(rank.files)
    saving = dcp.async_save({"a": torch.ones(3)}, checkpoint_id=rank.folder / "x", no_dist=True)
    is_marked = rank.saves.has_mark("place", 0, 0, 2)
    saving.result()

    assert is_marked


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_rank_stops_where_its_shard_is_written_and_the_metadata_is_not(
    new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = new()
    rank.cursor.step = 2
    found: list[list[str]] = []
    folder = rank.folder / "sharded"
    rank.listener.answer(
        save_reached=lambda *_: lambda: found.append(sorted(p.name for p in folder.iterdir()))
    )
    put_back_after_the_test(monkeypatch)

    watch_libraries(rank.files)
    dcp.save({"a": torch.ones(3)}, checkpoint_id=folder, no_dist=True)

    assert found == [["__0_0.distcp"]]
    (begun,) = (event for event in rank.of(FileSaveBegun) if event.saver == "shards")
    assert (begun.step, begun.path) == (2, str(folder))
    assert (folder / ".metadata").exists()


def test_a_save_beside_training_leaves_the_hooks_that_see_training(new: New) -> None:
    rank = new()
    unhooked: list[str] = []

    def unhook(save: Callable[[], Any]) -> Any:
        unhooked.append(threading.current_thread().name)
        return save()

    rank.listener.answer(call_unhooked=unhook)
    rank.files.enter_step()

    torch.save({"a": 1}, io.BytesIO())
    beside = threading.Thread(target=torch.save, args=({"a": 1}, io.BytesIO()), name="beside")
    beside.start()
    beside.join()

    assert unhooked == ["MainThread"]


# -- safetensors -----------------------------------------------------------------------------------


def put_safetensors_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safetensors, "safe_open", inspect.unwrap(safetensors.safe_open))
    for module in (safetensors.torch, safetensors.numpy):
        for name in ("safe_open", "serialize_file"):
            monkeypatch.setattr(module, name, inspect.unwrap(getattr(module, name)))
        monkeypatch.setattr(module, "_chaos_watches", True, raising=False)
        del module._chaos_watches


def test_a_file_of_safetensors_is_a_save_with_its_tensors_and_is_found_again(
    new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = new()
    rank.cursor.step = 3
    path = rank.folder / "model.safetensors"
    put_safetensors_back(monkeypatch)
    watch_libraries(rank.files)
    safetensors.torch.save_file({"a": torch.ones(2), "b": torch.zeros(3)}, path, {"step": "3"})

    (saved,) = rank.of(FileSaved)
    assert [begun.path for begun in rank.of(FileSaveBegun)] == [str(path)]
    assert {part.name for part in saved.parts} >= {"a", "b"}

    later = new(attempt=1)
    put_safetensors_back(monkeypatch)
    watch_libraries(later.files)
    read = safetensors.torch.load_file(path)

    assert torch.equal(read["a"], torch.ones(2))
    (loaded,) = later.of(FileLoaded)
    assert (loaded.saved_attempt, loaded.saved_step) == (0, 3)


def test_a_save_of_safetensors_is_struck_when_half_of_the_file_is_there(
    new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = new()
    path = rank.folder / "model.safetensors"
    seen: list[int] = []
    rank.listener.answer(save_reached=lambda *_: lambda: seen.append(path.stat().st_size))
    put_safetensors_back(monkeypatch)
    watch_libraries(rank.files)
    safetensors.torch.save_file({"a": torch.arange(100)}, path)

    assert seen == [path.stat().st_size // 2]
    assert torch.equal(safetensors.torch.load_file(path)["a"], torch.arange(100))


def test_arrays_in_safetensors_are_a_save_and_what_cannot_be_read_is_told(
    new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = new()
    path = rank.folder / "model.safetensors"
    put_safetensors_back(monkeypatch)
    watch_libraries(rank.files)
    safetensors.numpy.save_file({"a": np.ones(2)}, path)

    assert [begun.path for begun in rank.of(FileSaveBegun)] == [str(path)]

    later = new(attempt=1)
    put_safetensors_back(monkeypatch)
    watch_libraries(later.files)
    assert safetensors.numpy.load_file(path)["a"].tolist() == [1.0, 1.0]
    path.write_bytes(b"")
    with pytest.raises(safetensors.SafetensorError):
        safetensors.numpy.load_file(path)

    errors = [loaded.error for loaded in later.of(FileLoaded)]
    assert errors[0] is None
    assert "SafetensorError" in str(errors[1])
