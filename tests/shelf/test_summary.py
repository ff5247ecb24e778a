"""A summary of another history is told as such."""

import shutil
import sys
from pathlib import Path

import pytest

from chaos.cli import commands as cli
from chaos.model.summary import STALE
from tests.needs import needs_extension
from tests.shelf.conftest import Shelf


@pytest.fixture
def mixed_up(stocked: Shelf, tmp_path: Path) -> Path:
    """Return a guilty run in whose folder somebody put verdict and summary of a right one."""
    folder = shutil.copytree(stocked.guilty, tmp_path / "killed_badly/0-1")
    for name in ("verdict.json", "summary.json"):
        shutil.copy(stocked.valid / name, folder / name)
    return folder


def said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object
) -> tuple[object, str]:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["chaos", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = capsys.readouterr()
    return ended.value.code, told.out + told.err


@needs_extension("lab")
@pytest.mark.parametrize("form", [(), ("--format", "md")])
def test_a_summary_of_another_history_is_compared_as_unknown(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stocked: Shelf,
    mixed_up: Path,
    form: tuple[str, ...],
) -> None:
    code, told = said(monkeypatch, capsys, "compare", stocked.valid, mixed_up, *form)

    assert code == 2
    assert STALE in told
