"""Which of the files that a rank writes are saves, for later attempts to find."""

from pathlib import Path

import numpy as np
import torch

from chaos.model.event import (
    FileLoaded,
    FileSaved,
)
from chaos.probe import write_ledger
from chaos.run.file_digest import file_digest, folder_digests
from tests.probe.opening_rank import found_by, stepped, watching, write_bytes, write_pickle
from tests.probe.opening_rank import own as own  # noqa: PLC0414 - a fixture
from tests.probe.saving_rank import New
from tests.probe.saving_rank import new as new  # noqa: PLC0414 - a fixture


def test_an_attempt_finds_what_is_left_of_the_saves_under_their_last_names(
    new: New, own: Path
) -> None:
    first = watching(new)
    stepped(first, 1)
    for number, name in enumerate(("kept", "gone", "removed", "torn", "folder/inner")):
        (own / name).parent.mkdir(exist_ok=True)
        write_pickle(own / f"{name}.new", {"w": np.full(9, number)})
        (own / f"{name}.new").replace(own / f"{name}.pkl")
    first.files.scan_files()
    (own / "folder").rename(own / "other")
    (own / "removed.pkl").unlink()
    with first.files.pause_watch():  # as another program would
        (own / "gone.pkl").unlink()
        (own / "torn.pkl").write_bytes(b"x" * (own / "torn.pkl").stat().st_size)

    found = found_by(new(attempt=1))

    assert found == {
        "kept.pkl": "there",
        "gone.pkl": "gone",
        "torn.pkl": "gone",
        "inner.pkl": "there",
    }


def test_a_file_that_is_renamed_over_the_save_before_is_there(new: New, own: Path) -> None:
    rank = watching(new)
    for step in (1, 2, 3):
        stepped(rank, step)
        write_pickle(own / "state.new", {"w": np.full(9, step)})
        rank.files.scan_files()
        (own / "state.new").replace(own / "state.pkl")
    rank.files.scan_files()

    assert found_by(new(attempt=1)) == {"state.pkl": "there"}
    assert {e.digest for e in rank.of(FileSaved)} >= {file_digest(own / "state.pkl")}


def test_what_is_appended_to_and_what_is_ours_is_no_save(new: New, own: Path) -> None:
    rank = watching(new)
    with (own / "train.log").open("ab") as file:
        file.write(b"\x80epoch 0")
    (rank.folder / "journals").mkdir()
    (rank.folder / "journals/x.bin").write_bytes(b"\x80")

    rank.files.report_begun()

    assert not rank.of(FileSaved)


def test_an_empty_file_is_none_that_was_saved(new: New, own: Path) -> None:
    first = watching(new)
    stepped(first, 1)
    (own / "done").touch()
    write_pickle(own / "a.pkl", [1])
    first.files.enter_step()

    second = new(attempt=1)
    second.files.watch_opened()
    (own / "newest").touch()  # it was cut off
    for name in ("newest", "a.pkl"):
        (own / name).read_bytes()
    second.files.enter_step()

    assert [Path(e.path).name for e in second.of(FileLoaded)] == ["a.pkl"]


def test_a_file_of_the_probes_own_is_no_save(new: New, own: Path) -> None:
    rank = watching(new)
    stepped(rank, 1)
    (rank.folder / "nodes/node-0").mkdir(parents=True)
    (rank.folder / "nodes/node-0" / write_ledger.TRAINS).touch()
    rank.files.enter_step()

    assert found_by(new(attempt=1)) == {}


def test_a_copy_of_a_save_is_none_of_where_it_was_copied(new: New, own: Path) -> None:
    rank = watching(new)
    stepped(rank, 1)
    write_bytes(own / "a.bin", [1])
    rank.files.enter_step()
    stepped(rank, 2)
    (own / "b.bin").write_bytes((own / "a.bin").read_bytes())
    rank.files.enter_step()

    assert [(e.path.rpartition("/")[2], e.step) for e in rank.of(FileSaved)] == [("a.bin", 1)]


def test_a_file_that_is_still_open_is_looked_at_once_it_is_closed(new: New, own: Path) -> None:
    rank = watching(new)
    with (own / "a.bin").open("wb") as file:
        file.write(b"\x80")
        rank.files.report_begun()
        assert not rank.of(FileSaved)
    rank.files.train_fn_ended()

    assert len(rank.of(FileSaved)) == 1


def test_a_map_that_stays_open_over_steps_is_a_save_at_none_of_them(new: New, own: Path) -> None:
    rank = watching(new)
    held = np.memmap(own / "held.map", dtype=np.uint8, mode="w+", shape=(4,))
    for step in (1, 2):
        rank.files.enter_step()
        held[0] = 200 + step
        stepped(rank, step)
        short = np.memmap(own / "short.map", dtype=np.uint8, mode="w+", shape=(4,))
        short[:] = 200 + step
        del short
    del held
    rank.files.enter_step()
    rank.files.train_fn_ended()

    assert [(Path(e.path).name, e.step) for e in rank.of(FileSaved)] == [
        ("short.map", 1),
        ("short.map", 2),
    ]


def test_a_checkpoint_with_a_file_that_nobody_was_seen_to_save_has_no_place(
    new: New, own: Path
) -> None:
    rank = watching(new)
    stepped(rank, 4)
    torch.save({"w": torch.ones(2)}, own / "a.pt")
    foreign = {**folder_digests(own), "b.bin": "0123456789abcdef"}

    rank.files.part_uploaded("c0", own, foreign)

    assert rank.saves.find_resume_place("c0") is None


def test_a_save_stands_at_the_end_of_an_epoch_whose_report_never_began(new: New, own: Path) -> None:
    (own.parent.parent / "saves").mkdir()
    (own.parent.parent / "saves/lengths.json").write_text('{"0": 4}')
    first = watching(new)
    stepped(first, 4)
    torch.save({"w": torch.ones(2)}, own / "a.pt")

    second = new(attempt=1)
    torch.load(own / "a.pt")
    second.files.enter_step()

    assert (second.cursor.epoch, second.cursor.step) == (1, 0)
