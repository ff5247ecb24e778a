"""What lies in a run's folder is not taken for what it is not; a full disk costs no verdict."""

import errno
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from chaos import report_store
from chaos.cli import commands as cli
from chaos.errors import HarnessError, HistoryError
from chaos.harness import Harness, UnsavedRunError, rejudge_run, write_suite
from chaos.model.plan import Plan
from chaos.model.summary import STALE
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory, create_run
from chaos.run.ports import ShowEntries
from tests.accepted import expect_text
from tests.report.conftest import plan_of
from tests.shelf.conftest import Shelf

NOT_OF_IT = "verdict is not of this history"


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


def test_a_verdict_of_another_history_is_told_as_such_and_judged_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mixed_up: Path
) -> None:
    reports = mixed_up.parents[1]
    assert "inconclusive: stale" in said(monkeypatch, capsys, "report", "--reports", reports)[1]
    assert STALE in said(monkeypatch, capsys, "report", mixed_up)[1]
    assert NOT_OF_IT in said(monkeypatch, capsys, "report", mixed_up, "--format", "md")[1]

    assert rejudge_run(mixed_up).verdict.status == "fail"

    assert NOT_OF_IT not in said(monkeypatch, capsys, "report", mixed_up, "--format", "md")[1]


def test_a_suites_row_is_unknown_where_its_runs_history_is_another_now(
    stocked: Shelf, tmp_path: Path
) -> None:
    reports = shutil.copytree(stocked.reports, tmp_path / "reports")
    suite = reports / stocked.suite.relative_to(stocked.reports)
    guilty = reports / stocked.guilty.relative_to(stocked.reports)
    valid = reports / stocked.valid.relative_to(stocked.reports)
    before = [run.status for run in report_store.load_summaries(suite)]
    shutil.copy(valid / "history.jsonl", guilty / "history.jsonl")

    assert before == ["pass", "fail", None]
    assert [run.status for run in report_store.load_summaries(suite)] == [
        "pass",
        "inconclusive",
        None,
    ]


def test_another_runs_history_is_no_verdict(stocked: Shelf, tmp_path: Path) -> None:
    folder = shutil.copytree(stocked.guilty, tmp_path / "mixed")
    shutil.copy(stocked.valid / "history.jsonl", folder / "history.jsonl")

    verdict = rejudge_run(folder).verdict

    assert verdict.status == "inconclusive"
    expect_text(verdict.headline)


# -- a stranger's folder -----------------------------------------------------------------------


def test_a_folder_of_links_is_judged_without_following_one(stocked: Shelf, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    folder = shutil.copytree(stocked.valid, tmp_path / "theirs")
    for name in ("summary.json", "junit.xml", "report.html"):
        (folder / name).unlink()
        (folder / name).symlink_to(precious)

    rejudge_run(folder)

    assert precious.read_text() == "mine"
    assert not (folder / "report.html").is_symlink()


@pytest.mark.parametrize("name", ["history.jsonl", "plan.json", "verdict.json", "env.json"])
def test_a_pipe_in_a_folder_is_not_waited_for(stocked: Shelf, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(stocked.valid, tmp_path / "theirs")
    (folder / name).unlink()
    os.mkfifo(folder / name)

    for look in (rejudge_run, report_store.load_run):
        with pytest.raises(HistoryError, match=f"{name}: this is not a file, but a pipe"):
            look(folder)


def test_a_page_that_is_a_link_to_nothing_is_not_written_through_it(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stocked: Shelf,
    tmp_path: Path,
) -> None:
    folder = shutil.copytree(stocked.valid, tmp_path / "theirs")
    (folder / "report.html").unlink()
    (folder / "report.html").symlink_to(tmp_path / "elsewhere")

    assert said(monkeypatch, capsys, "report", folder)[0] == 0
    assert not (tmp_path / "elsewhere").exists()


# -- a full disk -------------------------------------------------------------------------------


class Idle:
    """A backend that does nothing, or meets a full disk."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails

    def execute(self, plan: Plan, directory: RunDirectory, show: ShowEntries) -> None:
        if self.fails:
            raise full()

    def close(self) -> None:
        return


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def filled_from(name: str) -> Callable[[Path, bytes], Path]:
    """Return a writer whose disk is full from a file of this name on."""
    is_full = False

    def write(path: Path, content: bytes) -> Path:
        nonlocal is_full
        is_full = is_full or path.name == name
        if is_full:
            raise full()
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize("name", ["history.jsonl", "verdict.json", "summary.json", "report.html"])
def test_a_disk_that_is_full_at_the_end_costs_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    plan = plan_of("killed")
    directory = create_run(tmp_path, "run", plan, {})
    console = Console(quiet=True)
    told: list[object] = []
    harness = Harness(tmp_path, console, tmp_path, Idle(), SystemClock(), run_listener=told.append)
    monkeypatch.setattr("chaos.run.record_file.write_bytes", filled_from(name))
    monkeypatch.setattr("chaos.run.journal.write_bytes", filled_from(name))

    with pytest.raises(UnsavedRunError) as caught:
        harness._execute(plan, directory, None)

    assert len(told) == 1
    assert caught.value.run.verdict.status == "inconclusive"
    assert "No space left on device. The verdict is inconclusive: " in str(caught.value)


def test_a_disk_that_is_full_during_the_run_is_no_defect_of_ours(tmp_path: Path) -> None:
    plan = plan_of("killed")
    directory = create_run(tmp_path, "run", plan, {})
    quiet = Console(quiet=True)
    harness = Harness(tmp_path, quiet, tmp_path, Idle(fails=True), SystemClock())

    with pytest.raises(
        HarnessError, match=r"run: cannot write there: No space left.*chaos rejudge"
    ):
        harness._execute(plan, directory, None)

    assert directory.load_verdict() is not None


def test_a_suite_that_cannot_be_written_is_told_in_a_sentence(
    stocked: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.run.record_file.write_bytes", filled_from("suite.json"))

    with pytest.raises(HarnessError, match="No space left on device"):
        write_suite(tmp_path, stocked.rows, SystemClock())
