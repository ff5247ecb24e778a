"""What two looks at a working folder tell apart, and where a look is not taken."""

import os
from pathlib import Path

import pytest

from chaos.launch import folder_snapshot
from chaos.launch.folder_snapshot import FolderSnapshot


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "desk/sub").mkdir(parents=True)
    (tmp_path / "desk/train.py").write_text("pass\n")
    return tmp_path / "desk"


def look(desk: Path) -> FolderSnapshot:
    return FolderSnapshot.from_folder(str(desk), left_out=str(desk / "reports"))


def test_new_changed_and_lost_files_are_told_apart(desk: Path) -> None:
    (desk / "old.txt").touch()
    before = look(desk)
    (desk / "old.txt").unlink()
    (desk / "sub/new.txt").touch()
    (desk / "train.py").write_text("other\n")

    change = before.compare_current()

    assert change.new_files == (str(desk / "sub/new.txt"),)
    assert change.changed_files == (str(desk / "train.py"),)
    assert change.removed_files == (str(desk / "old.txt"),)


def test_a_file_of_the_same_size_and_time_in_another_place_on_disk_is_a_changed_one(
    desk: Path,
) -> None:
    before, found = look(desk), (desk / "train.py").stat()
    (desk / "draft").write_text("past\n")
    os.utime(desk / "draft", ns=(found.st_atime_ns, found.st_mtime_ns))
    (desk / "draft").replace(desk / "train.py")

    assert before.compare_current().changed_files == (str(desk / "train.py"),)


@pytest.mark.parametrize("folder", [".git", ".venv", "node_modules", "__pycache__", "reports"])
def test_folders_of_tools_and_of_chaos_are_not_looked_into(desk: Path, folder: str) -> None:
    before = look(desk)
    (desk / folder).mkdir()
    (desk / folder / "x").touch()

    assert before.compare_current().is_empty


def test_an_environment_by_any_name_is_not_looked_into(desk: Path) -> None:
    before = look(desk)
    (desk / "sub/pyvenv.cfg").touch()
    (desk / "sub/x").touch()

    assert before.compare_current().is_empty


def test_a_huge_folder_is_looked_at_from_its_top_and_the_cut_is_told(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_snapshot, "ENTRIES_MAX", 3)
    for number in range(4):
        (desk / f"{number}.txt").touch()
    before = look(desk)
    (desk / "0.txt").write_text("x")
    (desk / "new.txt").touch()

    change = before.compare_current()

    assert change.truncated_at == str(desk / "sub")
    assert change.changed_files == (str(desk / "0.txt"),)
    assert change.new_files == ()  # it may have been there, where nothing was looked at
