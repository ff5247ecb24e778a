"""Files of any format: followed from their writing to their reading by a later attempt."""

import json
import os
import shutil
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp

from chaos.model.event import (
    FileLoaded,
    FileRenamed,
    FileSaveBegun,
    FileSaved,
    FileTouched,
    FileWritten,
)
from chaos.model.trigger import Moment
from chaos.probe import open_watch as opened
from chaos.probe import write_ledger
from chaos.probe.state.files import watch_libraries
from chaos.run.file_digest import file_digest
from tests.probe.opening_rank import found_by, stepped, watching, write_bytes, write_pickle
from tests.probe.opening_rank import own as own  # noqa: PLC0414 - a fixture
from tests.probe.saving_rank import New, put_back_after_the_test
from tests.probe.saving_rank import new as new  # noqa: PLC0414 - a fixture


def write_npz(path: Path, value: Any) -> None:
    with path.open("wb") as file:
        np.savez(file, **value)


WAYS = {"state.pkl": write_pickle, "state.npz": write_npz, "state.bin": write_bytes}


@pytest.mark.parametrize("name", WAYS)
def test_a_later_attempt_goes_on_where_what_it_reads_was_written(
    new: New, own: Path, name: str
) -> None:
    first = watching(new)
    stepped(first, 3)
    WAYS[name](own / ".draft", {"epoch": 4, "w": np.ones(3)})
    (own / ".draft").replace(own / name)
    first.files.enter_step()

    second = new(attempt=1)
    second.files.watch_opened()
    (own / name).read_bytes()
    second.files.enter_step()

    assert [(e.epoch, e.step) for e in first.of(FileSaved)] == [(0, 3)]
    assert [e.saver for e in first.of(FileSaveBegun)] == [""]
    assert [Path(e.to).name for e in first.of(FileRenamed)] == [name]
    assert [e.saved_step for e in second.of(FileLoaded)] == [3]
    assert (second.cursor.epoch, second.cursor.step) == (0, 3)


def test_a_file_in_the_temporary_folder_of_another_node_is_elsewhere(
    new: New, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(own))
    first = watching(new)
    stepped(first, 1)
    write_pickle(own / "state.pkl", {"w": np.ones(3)})
    first.files.scan_files()
    same = found_by(new(attempt=1, rank=1))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "of another node"))

    assert same == {"state.pkl": "there"}
    assert found_by(new(attempt=1)) == {"state.pkl": "elsewhere"}


def test_what_is_written_before_the_first_step_gives_no_place(new: New, own: Path) -> None:
    first = watching(new)
    write_pickle(own / "cache.pkl", {"rows": np.ones(3)})
    first.files.scan_files()
    stepped(first, 3)
    write_pickle(own / "state.pkl", {"w": np.ones(3)})
    first.files.enter_step()
    ranks = [new(attempt=1, rank=rank, ranks=2) for rank in (0, 1)]
    for rank in ranks:
        rank.files.watch_opened()
        (own / "cache.pkl").read_bytes()
        rank.files.scan_files()
    ranks[1].files.watch_opened()
    (own / "state.pkl").read_bytes()
    ranks[1].files.enter_step()

    assert (ranks[1].cursor.epoch, ranks[1].cursor.step) == (0, 3)


def test_what_is_pickled_is_known_by_its_entries(new: New, own: Path) -> None:
    rank = watching(new)
    write_pickle(own / "state.pkl", {"epoch": 4, "ship": torch.ones(4)})
    rank.files.scan_files()

    (saved,) = rank.of(FileSaved)
    assert saved.counts == {"epoch": 4}
    assert {part.name: part.size for part in saved.parts} == {"epoch": 4.0, "ship": 2.0}


@pytest.mark.filterwarnings("ignore:torch.distributed is")
def test_folders_of_distributed_checkpoints_are_resume_points(new: New, own: Path) -> None:
    first = watching(new)
    stepped(first, 2)
    dcp.save({"w": torch.ones(3)}, checkpoint_id=own / "e0", no_dist=True)
    first.files.enter_step()
    second = new(attempt=1)
    second.files.watch_opened()

    held = {"w": torch.zeros(3)}
    dcp.load(held, checkpoint_id=own / "e0", no_dist=True)
    second.files.enter_step()

    assert held["w"].tolist() == [1, 1, 1]
    assert (second.cursor.epoch, second.cursor.step) == (0, 2)


@pytest.mark.filterwarnings("ignore:torch.distributed is")
def test_the_load_of_a_distributed_checkpoint_is_struck_inside(new: New, own: Path) -> None:
    first = watching(new)
    stepped(first, 2)
    dcp.save({"w": torch.ones(3)}, checkpoint_id=own / "e0", no_dist=True)
    first.files.enter_step()
    second = new(attempt=1)
    second.files.watch_opened()
    held = {"w": torch.zeros(3)}
    found: list[tuple[bool, list[float]]] = []

    def strike() -> None:
        within = {
            frame.name for frame in traceback.extract_stack() if "state_dict_loader" in frame[0]
        }
        found.append(("load" in within, held["w"].tolist()))

    second.listener.answer(earlier_save_entered=strike)
    dcp.load(held, checkpoint_id=own / "e0", no_dist=True)
    second.files.enter_step()

    assert found == [(True, [0, 0, 0])]
    assert held["w"].tolist() == [1, 1, 1]
    assert {Path(load.path).name for load in second.of(FileLoaded)} == {".metadata", "__0_0.distcp"}


def test_text_is_a_place_only_where_nothing_else_was_read(new: New, own: Path) -> None:
    first = watching(new)
    stepped(first, 1)
    write_bytes(own / "w.bin", [1.5] * 50)
    stepped(first, 3)
    (own / "log.json").write_text(json.dumps({"loss": 0.5, "epoch": 2}))
    first.files.report_begun()
    (text,) = first.of(FileWritten)
    assert {part.name: part.kind for part in text.parts} == {"loss": "numbers", "epoch": "counts"}

    places = []
    for attempt, names in enumerate((["log.json", "w.bin"], ["log.json"]), start=1):
        later = new(attempt=attempt)
        later.files.watch_opened()
        for name in names:
            (own / name).read_bytes()
        later.files.enter_step()
        places.append((later.cursor.epoch, later.cursor.step))

    assert places == [(0, 1), (1, 0)]


def test_a_log_that_is_read_by_a_job_that_begins_anew_moves_nobody(new: New, own: Path) -> None:
    first = watching(new)
    stepped(first, 3)
    (own / "log.json").write_text("[0.5]")
    first.files.enter_step()

    second = new(attempt=1)
    second.files.watch_opened()
    (own / "log.json").read_text()
    second.resumes(is_fresh=True)

    assert (second.cursor.epoch, second.cursor.step) == (0, 0)


def test_a_temporary_file_that_is_gone_when_it_is_read_is_no_failure(
    new: New, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python tries a folder for temporary files with a file that it removes at once."""

    def removed_meanwhile(path: Path) -> str:
        path.unlink(missing_ok=True)
        return file_digest(path)

    monkeypatch.setattr("chaos.probe.save_recorder.file_digest", removed_meanwhile)
    rank = watching(new)

    (own / "b5d5xdst").write_bytes(b"blat")
    rank.files.scan_files()

    assert rank.of(FileSaveBegun) == []


@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_file_that_is_looked_for_before_it_is_there_is_not_missed(
    new: New, own: Path, *, is_renamed: bool
) -> None:
    rank = watching(new)
    stepped(rank, 3)
    file = own / "state.pkl.partial"

    def opens_slowly() -> None:
        """Let another thread look between the audit event of `open` and the opening."""
        sys.audit("open", str(file), "wb", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        beside = threading.Thread(target=rank.files.scan_files)
        beside.start()
        beside.join()
        with rank.files.pause_watch():
            write_pickle(file, {"epoch": 4})

    opens_slowly()
    if is_renamed:
        file.replace(own / "state.pkl")
    else:
        rank.files.report_begun()

    [saved] = rank.of(FileSaved)
    assert (saved.epoch, saved.step, saved.path) == (0, 3, str(file))


def test_a_save_in_place_that_is_looked_for_before_it_begins_is_not_missed(
    new: New, own: Path
) -> None:
    """Until it is opened, the file is the earlier save, and no copy of it."""
    rank = watching(new)
    stepped(rank, 1)
    file = own / "last.pkl"
    write_pickle(file, {"epoch": 1})
    rank.files.enter_step()
    stepped(rank, 2)

    sys.audit("open", str(file), "wb", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    beside = threading.Thread(target=rank.files.scan_files)
    beside.start()
    beside.join()
    with rank.files.pause_watch():
        write_pickle(file, {"epoch": 2})
    rank.files.enter_step()

    assert len(rank.of(FileSaved)) == 2


@pytest.mark.parametrize("torchs", [True, False])
def test_a_rank_stops_at_its_first_renaming_of_an_epoch_once_it_has_trained(
    new: New, own: Path, *, torchs: bool
) -> None:
    rank = watching(new)
    asked: list[tuple[int, str]] = []
    found: list[list[str]] = []

    def stops(moment: Moment, epoch: int, path: str) -> Callable[[], None] | None:
        if moment != "renaming":
            return None
        asked.append((epoch, Path(path).name))
        return lambda: found.append(sorted(path.name for path in own.iterdir()))

    rank.listener.answer(save_reached=stops)
    (own / "cache.tmp").touch()
    (own / "cache.tmp").rename(own / "cache")
    stepped(rank, 1)
    write = torch.save if torchs else lambda value, path: write_pickle(path, value)
    write({"epoch": 1}, own / "last.tmp")
    os.replace(own / "last.tmp", own / "last")  # noqa: PTH105 - as jobs do

    assert asked == [(0, "last.tmp")]
    assert found == [["cache", "last.tmp"]]
    rank.files.scan_files()
    assert [Path(event.to).name for event in rank.of(FileRenamed)] == ["cache", "last"]


def test_a_rank_stops_before_each_operation_on_a_name(new: New, own: Path) -> None:
    rank = watching(new)
    found: list[tuple[Moment, list[str]]] = []

    def stops(moment: Moment, _: int, __: str) -> Callable[[], None] | None:
        if moment == "saving":
            return None
        return lambda: found.append((moment, sorted(p.name for p in own.iterdir())))

    rank.listener.answer(save_reached=stops)
    (own / "latest").symlink_to("none")  # before training: not a place
    stepped(rank, 1)
    (own / "e1").mkdir()
    torch.save({"epoch": 1}, own / "e1" / "model.pt")
    (own / "latest").unlink()
    (own / "latest").symlink_to("e1")
    os.link(own / "e1" / "model.pt", own / "last.pt")

    shutil.rmtree(own / "e1")

    rank.files.scan_files()
    (own / "e1").mkdir()
    (own / "e1").mkdir(exist_ok=True)  # it is there: nothing is done
    assert (own / "e1").is_dir()

    rank.files.scan_files()
    assert found[-1] == ("making", ["e1", "last.pt", "latest"])
    assert found[:4] == [
        ("making", ["e1", "latest"]),
        ("removing", ["e1", "latest"]),
        ("linking", ["e1"]),
        ("linking", ["e1", "latest"]),
    ]
    told = [(e.operation, Path(e.path).name) for e in rank.of(FileTouched)]
    assert told == [
        ("linking", "latest"),
        ("making", "e1"),
        ("removing", "latest"),
        ("linking", "latest"),
        ("linking", "last.pt"),
        ("removing", "model.pt"),
        ("removing", "e1"),
    ]


def test_a_file_that_is_about_to_be_written_anew_is_empty(new: New, own: Path) -> None:
    rank = watching(new)
    sizes: list[int] = []
    stepped(rank, 1)
    (own / "newest").write_text("e0")
    rank.listener.answer(
        save_reached=lambda *_: lambda: sizes.append((own / "newest").stat().st_size)
    )

    (own / "newest").write_text("e1")
    with (own / "log").open("a") as log:  # what is there stays
        log.write("a line")

    assert sizes == [0]
    assert (own / "newest").read_text() == "e1"
    rank.files.scan_files()
    assert [e.operation for e in rank.of(FileTouched)] == [
        "opening"
    ]  # of both: one kind, one place


@pytest.mark.filterwarnings("ignore:torch.distributed is")
@pytest.mark.parametrize("is_beside", [False, True])
def test_a_rank_stops_where_the_metadata_of_shards_has_not_its_name_yet(
    new: New, own: Path, monkeypatch: pytest.MonkeyPatch, *, is_beside: bool
) -> None:
    put_back_after_the_test(monkeypatch)
    rank = watching(new)
    watch_libraries(rank.files)
    rank.cursor.epoch = 3
    stepped(rank, 1)
    found: list[tuple[int, list[str]]] = []

    def stops(moment: Moment, epoch: int, _: str) -> Callable[[], None] | None:
        names = (own / "e3").iterdir()
        is_due = moment == "renaming"
        return (lambda: found.append((epoch, sorted(p.name for p in names)))) if is_due else None

    rank.listener.answer(save_reached=stops)
    save: Any = dcp.async_save if is_beside else dcp.save
    saving = save({"a": torch.ones(3)}, checkpoint_id=own / "e3", no_dist=True)
    if is_beside:
        rank.cursor.epoch = 4
        saving.result()

    assert found == [(3, [".metadata.tmp", "__0_0.distcp"])]


def test_a_file_that_is_gone_again_is_looked_for_once(new: New, own: Path) -> None:
    rank = watching(new)
    (own / "scratch").write_bytes(b"\x00")
    (own / "scratch").unlink()

    rank.files.scan_files()
    rank.files.report_begun()

    assert not rank.of(FileSaved)
    assert not rank.files.opened_files._open_files


def test_a_file_that_is_opened_during_a_look_is_not_taken_for_closed(  # noqa: PLR0915 - two threads
    new: New, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's event comes before the opening; what the file holds is known later still."""
    path = own / "late.pkl"
    monkeypatch.setattr(opened, "LOOK_S", 60.0)  # no look but those below
    rank = watching(new)
    announced, may_write, is_open, may_close = (threading.Event() for _ in range(4))

    def opens_late(name: str, flags: int) -> int:
        announced.set()
        may_write.wait()
        with rank.files.pause_watch():  # an event of its own, which `open` alone does not make
            return os.open(name, flags)

    def write() -> None:
        with open(path, "wb", opener=opens_late) as file:
            file.write(b"\0half")
            file.flush()
            is_open.set()
            may_close.wait()

    scan = write_ledger.list_open_files

    def scans_while_it_opens() -> frozenset[str]:
        found = scan()
        may_write.set()
        is_open.wait()
        return found

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    announced.wait()
    monkeypatch.setattr(opened, "list_open_files", scans_while_it_opens)
    rank.files.scan_files()
    early = rank.of(FileSaved)
    monkeypatch.setattr(opened, "list_open_files", scan)
    may_close.set()
    writer.join()
    rank.files.scan_files(at_rest=True)

    assert not early
    assert [event.path for event in rank.of(FileSaved)] == [str(path)]
