"""`chaos report`, with `--trend`, and `chaos compare` over what `chaos run` leaves behind."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.cli import commands as cli
from chaos.harness import write_suite
from tests.needs import needs_extension
from tests.shelf.conftest import Shelf


def code_of(monkeypatch: pytest.MonkeyPatch, *words: object) -> Any:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["chaos", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_what_was_run_is_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stocked: Shelf
) -> None:
    assert code_of(monkeypatch, "report", "--reports", stocked.reports) == 0
    said = capsys.readouterr().out

    assert "2026-11-21T01:45:00Z" in said
    assert "1 of 3 as expected" in said
    assert said.count("run ") == 2
    assert str(stocked.guilty) in said


def test_an_empty_shelf_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert code_of(monkeypatch, "report", "--reports", tmp_path / "none") == 0
    assert "nothing was run yet" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["valid", "suite"])
def test_a_folder_is_answered_with_the_path_of_its_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stocked: Shelf, what: str
) -> None:
    folder = getattr(stocked, what)

    assert code_of(monkeypatch, "report", folder) == 0
    assert Path(capsys.readouterr().out.strip()) == folder / "report.html"


def test_a_run_is_given_in_every_form(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stocked: Shelf
) -> None:
    assert code_of(monkeypatch, "report", stocked.guilty, "--format", "md") == 0
    assert capsys.readouterr().out.startswith("# ❌ killed badly: fail\n")
    assert code_of(monkeypatch, "report", stocked.guilty, "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"]["status"] == document["summary"]["status"] == "fail"
    phases = document["goodput"]["phases_s"]
    assert sum(phases.values()) == pytest.approx(document["goodput"]["wall_s"])
    assert code_of(monkeypatch, "report", stocked.guilty, "--format", "html") == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")


def test_a_suite_is_given_in_every_form(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stocked: Shelf
) -> None:
    assert code_of(monkeypatch, "report", stocked.suite, "--format", "md") == 0
    said = capsys.readouterr().out
    assert said.startswith("# ❌ chaos: 2 of 3 ")
    assert said == (stocked.suite / "summary.md").read_text()
    assert code_of(monkeypatch, "report", stocked.suite, "--format", "json") == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 3
    assert code_of(monkeypatch, "report", stocked.suite, "--format", "html") == 0
    assert 'href="../../killed/7-20261121T014500/report.html"' in capsys.readouterr().out


def test_the_form_follows_from_the_file(
    monkeypatch: pytest.MonkeyPatch, stocked: Shelf, tmp_path: Path
) -> None:
    assert code_of(monkeypatch, "report", stocked.valid, "-o", tmp_path / "new" / "a.md") == 0
    assert (tmp_path / "new" / "a.md").read_text().startswith("# ✅ killed: pass\n")
    assert code_of(monkeypatch, "report", stocked.valid, "-o", tmp_path / "a.pdf") == 3


def test_a_page_that_is_gone_is_made_again(
    monkeypatch: pytest.MonkeyPatch, stocked: Shelf, tmp_path: Path
) -> None:
    copy = shutil.copytree(stocked.valid, tmp_path / "copy")
    (copy / "report.html").unlink()

    assert code_of(monkeypatch, "report", copy) == 0
    assert "pass" in (copy / "report.html").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ("report", "there/is/nothing"),
        ("report", "--format", "md"),
        ("report", ".", "--format", "pdf"),
        pytest.param(
            ("compare", "there/is/nothing", "there/is/nothing"), marks=needs_extension("lab")
        ),
    ],
)
def test_a_mistake_of_the_caller_is_answered_with_code_3(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert code_of(monkeypatch, *words) == 3


@needs_extension("lab")
def test_a_run_that_turned_invalid_is_a_regression(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stocked: Shelf,
    tmp_path: Path,
) -> None:
    worse = shutil.copytree(stocked.guilty, tmp_path / "worse")
    summary = json.loads((worse / "summary.json").read_text())
    (worse / "summary.json").write_text(json.dumps({**summary, "scenario": "killed"}))

    assert code_of(monkeypatch, "compare", stocked.valid, stocked.valid) == 0
    assert code_of(monkeypatch, "compare", stocked.valid, worse) == 1
    assert "regression" in capsys.readouterr().out
    assert code_of(monkeypatch, "compare", stocked.suite, stocked.suite, "--format", "md") == 2
    assert code_of(monkeypatch, "compare", stocked.suite, stocked.suite, "--allow-failing") == 0
    assert code_of(monkeypatch, "compare", stocked.suite, stocked.valid, "--format", "json") == 2
    assert code_of(monkeypatch, "compare", stocked.valid.parent, stocked.valid) == 0


@needs_extension("lab")
def test_the_trend_page_links_runs_and_suites_that_exist(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stocked: Shelf
) -> None:
    assert code_of(monkeypatch, "report", "--trend", "--reports", stocked.reports) == 0
    page = Path(capsys.readouterr().out.strip())
    text = page.read_text()
    links = {part.split('"')[0] for part in text.partition("<script")[0].split('href="')[1:]}

    assert "newest suite: 1 of 3 runs as expected" in text
    for link in links - {"#main"}:
        assert (page.parent / link).is_file(), link


def test_suites_that_start_in_one_second_do_not_share_a_folder(stocked: Shelf) -> None:
    class Stopped:
        def now_ns(self) -> int:
            return 0

        def wall_ns(self) -> int:
            return 1_760_000_000_000_000_000

        def sleep(self, seconds: float) -> None:
            raise AssertionError

    pages = {write_suite(stocked.reports, stocked.rows, Stopped()) for _ in range(3)}

    assert len(pages) == 3
