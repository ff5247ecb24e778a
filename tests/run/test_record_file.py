"""A stranger's folder of a run is read without being led, held up or filled."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.errors import HistoryError
from chaos.run.directory import RunDirectory
from chaos.run.journal import read_history
from chaos.run.record_file import digest_history, read_small_file, write_text


def a_link(path: Path) -> None:
    path.with_name("elsewhere").write_text("{}")
    path.symlink_to("elsewhere")


def a_link_to_nothing(path: Path) -> None:
    path.symlink_to("nothing")


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(path))


def far_too_large(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


TRAPS = [
    (a_link, "a symbolic link"),
    (a_link_to_nothing, "a symbolic link"),
    (a_pipe, "a pipe or a device"),
    (a_socket, "a socket"),
    (far_too_large, "1048576 MiB"),
]
READS = [
    ("plan.json", RunDirectory.load_plan),
    ("env.json", RunDirectory.load_env),
    ("verdict.json", RunDirectory.load_verdict),
    ("history.jsonl", RunDirectory.load_history),
    ("baseline.jsonl", RunDirectory.load_baseline),
]


@pytest.mark.parametrize(("name", "read"), READS)
@pytest.mark.parametrize(("lay", "told"), TRAPS)
def test_what_is_no_file_is_refused_by_its_name(
    tmp_path: Path,
    name: str,
    read: Callable[[RunDirectory], object],
    lay: Callable[[Path], None],
    told: str,
) -> None:
    lay(tmp_path / name)

    with pytest.raises(HistoryError, match=told) as caught:
        read(RunDirectory(tmp_path))
    assert caught.value.location == str(tmp_path / name)


def test_a_device_is_not_read() -> None:
    with pytest.raises(HistoryError, match="a pipe or a device"):
        read_small_file(Path("/dev/zero"))


def test_a_missing_file_and_a_folder_are_errors_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_small_file(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        read_small_file(tmp_path)


def test_journals_are_not_looked_for_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "journals").symlink_to("theirs")

    with pytest.raises(HistoryError, match="a symbolic link"):
        read_history(tmp_path / "journals")


def test_a_digest_is_of_the_bytes_and_of_nothing_that_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "b").write_bytes(b"two")
    (tmp_path / "c").symlink_to("a")

    assert digest_history(tmp_path / "a") not in (None, digest_history(tmp_path / "b"))
    assert digest_history(tmp_path / "c") is None
    assert digest_history(tmp_path / "d") is None


def test_half_of_a_character_is_written_as_its_number(tmp_path: Path) -> None:
    write_text(tmp_path / "page.html", "a \ud800 é")

    assert (tmp_path / "page.html").read_text(encoding="utf-8") == "a \\ud800 é"
