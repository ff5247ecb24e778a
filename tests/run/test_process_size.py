"""A process counts what it holds itself."""

from pathlib import Path

import pytest

from chaos.run.process_size import process_size


def test_a_process_counts_a_file_that_it_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = process_size()
    with (tmp_path / "x").open("w"):
        after = process_size()

    assert before is not None
    assert after is not None
    assert (after.open_files - before.open_files, after.entries) == (1, 1)
    assert after.memory_bytes > 0
