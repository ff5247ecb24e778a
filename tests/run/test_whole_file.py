from pathlib import Path

import pytest

from chaos.run.whole_file import read_fields, write_fields, write_text


def test_what_was_written_is_read_and_nothing_else_lies_there(tmp_path: Path) -> None:
    write_fields(tmp_path / "saves" / "a.json", {"rank": 1})

    assert read_fields(tmp_path / "saves" / "a.json") == {"rank": 1}
    assert [path.name for path in (tmp_path / "saves").iterdir()] == ["a.json"]


def test_a_file_that_is_not_there_has_no_fields(tmp_path: Path) -> None:
    assert read_fields(tmp_path / "a.json") is None


def test_a_write_that_breaks_off_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_text(tmp_path / "a.txt", "old")
    written = Path.write_text

    def half(self: Path, data: str, encoding: str | None = None) -> int:
        written(self, data[: len(data) // 2], encoding)
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match="no space left"):
        write_text(path, "new and longer")

    assert path.read_text(encoding="utf-8") == "old"
