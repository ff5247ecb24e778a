"""A path as a user would type it, and as another machine finds it."""

from pathlib import Path

import pytest

from chaos.run.display_path import find_repository, format_path, format_portable_path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder below a git repository, in which the command is called."""
    (tmp_path / "repository/.git").mkdir(parents=True)
    folder = tmp_path / "repository/work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_a_path_below_the_working_folder_is_relative(folder: Path) -> None:
    assert format_path(folder / "train.py") == "train.py"
    assert format_path(folder.parent / "train.py") == str(folder.parent / "train.py")


def test_a_portable_path_is_from_the_root_of_the_repository(folder: Path) -> None:
    assert format_portable_path("train.py") == "work/train.py"
    assert format_portable_path(folder / "train.py") == "work/train.py"


def test_outside_of_a_repository_a_portable_path_is_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert find_repository(tmp_path) is None
    assert format_portable_path("train.py") == "train.py"
