"""A small file is whole or not there, and lies in its own folder."""

import errno
import os
import resource
import signal
from pathlib import Path

import pytest

from chaos.errors import HarnessError
from chaos.run.record_file import read_fields, translate_disk_errors, write_fields, write_text


def test_what_was_written_is_read_and_nothing_else_lies_there(tmp_path: Path) -> None:
    write_fields(tmp_path / "saves" / "a.json", {"rank": 1})

    assert read_fields(tmp_path / "saves" / "a.json") == {"rank": 1}
    assert [path.name for path in (tmp_path / "saves").iterdir()] == ["a.json"]


def test_a_file_that_is_not_there_has_no_fields(tmp_path: Path) -> None:
    assert read_fields(tmp_path / "a.json") is None


def test_a_write_that_breaks_off_leaves_what_was_there_and_no_draft(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.txt", "old")
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as of a disk that is full: an error
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
        with pytest.raises(OSError, match="File too large"):
            write_text(path, "new and longer")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
        signal.signal(signal.SIGXFSZ, before)

    assert path.read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_link_in_a_files_place_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "verdict.json").symlink_to(precious)
    for pid in range(os.getpid() - 50, os.getpid() + 50):  # as drafts were once named
        (folder / f".verdict.json.{pid}").symlink_to(precious)

    write_text(folder / "verdict.json", "{}")

    assert precious.read_text() == "mine"
    assert (folder / "verdict.json").read_text() == "{}"
    assert not (folder / "verdict.json").is_symlink()


def test_a_full_disk_is_told_with_what_is_left() -> None:
    with (
        pytest.raises(HarnessError, match=r"^run: cannot write there: No space left.*Make room\.$"),
        translate_disk_errors("run", "Make room."),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_error_that_is_none_of_the_disk_stays_what_it_is() -> None:
    with pytest.raises(ConnectionResetError), translate_disk_errors("run", "Make room."):
        raise ConnectionResetError(errno.ECONNRESET, "reset")
