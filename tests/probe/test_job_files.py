"""Files that a job saves and loads: as torch does it, and remembered."""

import inspect
import io
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp

from chaos.model.event import (
    FileLoaded,
    FileSaveBegun,
    FileSaved,
)
from chaos.probe.state.files import watch_libraries
from chaos.run.directory import EPOCH_LENGTHS_FILE
from chaos.run.file_digest import file_digest
from chaos.run.record_file import write_fields
from tests.probe.saving_rank import New, Rank, put_back_after_the_test
from tests.probe.saving_rank import new as new  # noqa: PLC0414 - a fixture


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
