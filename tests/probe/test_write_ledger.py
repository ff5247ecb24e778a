"""What a process writes is written down, and what was there before an audit is not harmed."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from chaos.errors import ForeignFileError
from chaos.launch.files_outside import find_outside_files
from chaos.probe.write_ledger import (
    LedgerLine,
    WriteLedger,
    WriteLimits,
    load_ledger,
    mark_training_begin,
    start_ledger,
)


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "audit").mkdir()
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "model.pt").write_text("of last week")
    start_ledger(WriteLedger(tmp_path / "ledger", (), WriteLimits(tmp_path / "audit")))
    yield theirs
    start_ledger(None)


def noted(theirs: Path, name: str) -> list[str]:
    path, lines = str(theirs / name), load_ledger(theirs.parent / "ledger")
    return [line.how for line in lines if line.path == path and line.how != "saved"]


@pytest.mark.parametrize("way", ["open", "torch.save", "replace", "remove", "rmtree", "truncate"])
def test_what_was_there_before_is_not_harmed(theirs: Path, way: str) -> None:
    kept, own = theirs / "model.pt", theirs / "own.pt"
    own.write_text("of today")
    acts: dict[str, Callable[[], object]] = {
        "open": lambda: kept.write_text("of today"),
        "torch.save": lambda: torch.save({}, kept),
        "replace": lambda: own.replace(kept),
        "remove": kept.unlink,
        "rmtree": lambda: shutil.rmtree(theirs),
        "truncate": lambda: os.truncate(kept, 0),
    }

    with pytest.raises(ForeignFileError, match=r"model\.pt, which was there before the audit"):
        acts[way]()

    assert kept.read_text() == "of last week"
    assert noted(theirs, "model.pt") == ["refused"]


def test_what_a_forked_child_saves_as_a_model_is_known(theirs: Path) -> None:
    if (child := os.fork()) == 0:
        torch.save({}, theirs / "snapshot.pt")
        (theirs / "log.txt").write_text("saved")
        os._exit(0)
    os.waitpid(child, 0)

    lines = load_ledger(theirs.parent / "ledger")
    assert {(line.path, line.pid) for line in lines if line.how == "saved"} == {
        (str(theirs / "snapshot.pt"), child)
    }
    made = find_outside_files(lines, theirs.parent / "audit")
    assert {(Path(e.path).name, e.is_save) for e in made} == {
        ("snapshot.pt", True),
        ("log.txt", False),
    }


def test_what_an_audit_has_made_it_may_replace_and_remove(theirs: Path) -> None:
    own = theirs / "own.pt"

    torch.save({}, own)
    torch.save({}, own)
    own.unlink()

    assert noted(theirs, "own.pt") == ["created", "replaced", "removed"]


def test_what_another_process_of_the_audit_has_made_may_be_replaced(theirs: Path) -> None:
    (theirs / "own.pt").write_text("of one run")
    start_ledger(WriteLedger(theirs.parent / "ledger", (), WriteLimits(theirs.parent / "audit")))

    (theirs / "own.pt").write_text("of the next")

    assert noted(theirs, "own.pt") == ["created", "replaced"]


def test_what_is_allowed_is_replaced(theirs: Path) -> None:
    allowed = WriteLimits(theirs.parent / "audit", allowed=(theirs,))
    start_ledger(WriteLedger(theirs.parent / "ledger", (), allowed))

    torch.save({}, theirs / "model.pt")

    assert noted(theirs, "model.pt") == ["replaced"]


def test_without_an_audit_nothing_is_refused(theirs: Path) -> None:
    start_ledger(WriteLedger(theirs.parent / "ledger"))

    (theirs / "model.pt").write_text("of today")

    assert noted(theirs, "model.pt") == ["replaced"]


def test_what_is_appended_to_or_empty_is_no_harm(theirs: Path) -> None:
    (theirs / "lock").touch()

    with (theirs / "model.pt").open("a") as file:
        file.write(" and today")
    (theirs / "lock").write_text("")

    assert noted(theirs, "model.pt") == ["extended"]


def test_output_is_told_from_data(theirs: Path) -> None:
    (theirs / "data.csv").write_text("made before training")
    torch.save({}, theirs / "begun.tmp")
    (theirs / "begun.tmp").replace(theirs / "begun.pt")
    mark_training_begin()
    (theirs / "log.csv").write_text("made by it")

    outputs = {Path(line.path).name: line.is_output for line in _created(theirs)}

    assert outputs == {"data.csv": False, "begun.tmp": True, "begun.pt": True, "log.csv": True}


def test_a_start_that_finds_nothing_left_to_train_writes_output(tmp_path: Path) -> None:
    """Its report stayed in the user's folder, and the next run took it for its own."""
    (tmp_path / "audit").mkdir()
    limits = WriteLimits(tmp_path / "audit")
    start_ledger(WriteLedger(tmp_path / "ledger", (), limits, has_trained_before=True))
    (tmp_path / "report.json").write_text("{}")
    start_ledger(None)

    found = find_outside_files(load_ledger(tmp_path / "ledger"), tmp_path / "audit")
    assert [(Path(e.path).name, e.removed) for e in found] == [("report.json", True)]
    assert WriteLedger(tmp_path / "ledger", (), limits, is_child=True).is_training


def test_a_renamed_folder_takes_its_files_along(theirs: Path) -> None:
    (theirs / "part" / "deep").mkdir(parents=True)
    (theirs / "part" / "deep" / "model.pt").write_text("made by it")
    mark_training_begin()

    (theirs / "part").rename(theirs / "save-4")

    made = {line.path: line.is_output for line in load_ledger(theirs.parent / "ledger")}
    assert made[str(theirs / "save-4" / "deep" / "model.pt")]
    assert noted(theirs, "save-4/deep/model.pt") == ["created"]
    assert noted(theirs, "save-4") == noted(theirs, "save-4/deep") == ["folder"]
    assert noted(theirs, "part/deep/model.pt") == ["created", "removed"]


def test_a_folder_of_files_that_were_there_before_is_not_renamed(theirs: Path) -> None:
    with pytest.raises(ForeignFileError, match=r"model\.pt, which was there before the audit"):
        theirs.rename(theirs.parent / "of-last-week")

    assert (theirs / "model.pt").read_text() == "of last week"


def test_a_log_that_stays_open_is_output(theirs: Path) -> None:
    (theirs / "data.csv").write_text("made before training")
    with (theirs / "log.csv").open("w"), (theirs / "data.csv").open():
        mark_training_begin()

    lines = load_ledger(theirs.parent / "ledger")

    assert {Path(line.path).name for line in lines if line.is_output} == {"log.csv"}


def test_nothing_is_written_down_of_folders_left_out(theirs: Path) -> None:
    start_ledger(WriteLedger(theirs.parent / "ledger", (theirs / "logs",)))

    (theirs / "logs").mkdir()
    (theirs / "logs" / "a").write_text("ours")

    assert load_ledger(theirs.parent / "ledger") == []


def _created(theirs: Path) -> list[LedgerLine]:
    return [line for line in load_ledger(theirs.parent / "ledger") if line.how == "created"]
