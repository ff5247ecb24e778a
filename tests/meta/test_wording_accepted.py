"""Accepted texts are of tests that there are: those of a test that is gone go with it."""

import ast
from pathlib import Path

import pytest

from tests import accepted

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests").rglob(accepted.FILE_NAME))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_each_accepted_text_is_of_a_test(file: Path) -> None:
    keys = {key.partition("[")[0].partition(" (")[0] for key in accepted.load_texts(file)}
    tests = {
        f"{path.name}::{node.name}"
        for path in file.parent.glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }

    assert not keys - tests


def test_a_new_text_and_a_changed_one_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepted, "ROOT", tmp_path)
    with pytest.raises(AssertionError, match="ACCEPT_TEXTS=1"):
        accepted.expect_text("unknown")

    (tmp_path / "tests/meta").mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setenv("ACCEPT_TEXTS", "1")
        accepted.expect_text("known", "a name")

    accepted.expect_text("known", "a name")
    with pytest.raises(AssertionError, match="ACCEPT_TEXTS=1"):
        accepted.expect_text("another", "a name")
