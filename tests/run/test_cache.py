"""What is kept between processes: used where it is whole, made anew where it is not."""

from pathlib import Path

import pytest

from chaos.run.cache import FOLDER, get_cached


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / FOLDER


def never() -> str:
    raise AssertionError("it was kept")


def test_what_was_made_once_is_not_made_again(folder: Path) -> None:
    assert get_cached("a.js", "1.0", make=lambda: "one\ntwo\n") == "one\ntwo\n"
    assert get_cached("a.js", "1.0", make=never) == "one\ntwo\n"
    (file,) = folder.iterdir()
    assert file.name.endswith("-a.js")


def test_what_is_made_of_something_else_is_another_text(folder: Path) -> None:
    assert get_cached("a.js", "1.0", "2.0", make=lambda: "old") == "old"
    assert get_cached("a.js", "1.0", "2.1", make=lambda: "new") == "new"
    assert get_cached("a.js", "1.02.0", make=lambda: "third") == "third"


@pytest.mark.parametrize("damage", [b"", b"no digest", b"\xff\xfe", b"0" * 64 + b"\nother"])
def test_what_was_damaged_is_made_anew(folder: Path, damage: bytes) -> None:
    get_cached("a.js", make=lambda: "whole")
    (file,) = folder.iterdir()
    file.write_bytes(damage)

    assert get_cached("a.js", make=lambda: "again") == "again"
    assert get_cached("a.js", make=never) == "again"


def test_where_nothing_can_be_kept_it_is_made_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(in_the_way))

    assert get_cached("a.js", make=lambda: "first") == "first"
    assert get_cached("a.js", make=lambda: "second") == "second"


def test_without_the_variable_it_lies_in_the_users_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    get_cached("a.js", make=lambda: "made")

    assert len([*(tmp_path / ".cache" / FOLDER).iterdir()]) == 1
