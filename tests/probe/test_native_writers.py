"""Files that native code writes."""

from collections.abc import Iterator
from pathlib import Path

import h5py
import pytest

from chaos.errors import ForeignFileError
from chaos.probe.write_ledger import (
    WriteLedger,
    WriteLimits,
    load_ledger,
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


def test_a_file_of_h5py_is_written_by_its_mode(theirs: Path) -> None:
    own = theirs / "own.h5"
    for mode in ("w", "r", "r+", "a"):
        with h5py.File(own, mode) as file:
            file.attrs.keys()
    h5py.File(name=own, mode="w").close()

    assert noted(theirs, "own.h5") == ["created", "opened", "replaced"]
    with pytest.raises(ForeignFileError, match=r"model\.pt, which was there before"):
        h5py.File(theirs / "model.pt", "w")
    with pytest.raises(OSError, match="Unable"):
        h5py.File(theirs / "model.pt")


def test_what_native_code_wrote_in_a_folder_of_the_audits_may_be_replaced(theirs: Path) -> None:
    mine = theirs.parent / "mine"
    (mine / "pictures").mkdir(parents=True)
    start_ledger(None)  # as native code, which raises no event
    (mine / "pictures" / "1.png").write_text("pixels")
    start_ledger(WriteLedger(theirs.parent / "ledger", (), WriteLimits(theirs.parent / "audit")))

    mine.rename(theirs.parent / "whole")
    (theirs.parent / "whole" / "pictures" / "1.png").unlink()

    assert not (theirs.parent / "whole" / "pictures" / "1.png").exists()
