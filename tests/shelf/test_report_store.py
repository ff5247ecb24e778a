"""Runs and suites are found and read back, those of an older chaos as well."""

import shutil
from pathlib import Path

import pytest

from chaos import report_store
from chaos.errors import HistoryError
from tests.shelf.conftest import Shelf


def test_a_run_without_its_summary_is_compared_by_its_history(
    stocked: Shelf, tmp_path: Path
) -> None:
    old = shutil.copytree(stocked.guilty, tmp_path / "old")
    (old / "summary.json").unlink()
    (old / "verdict.json").unlink()
    known, again = report_store.load_summary(stocked.guilty), report_store.load_summary(old)

    assert (again.status, again.broken) == ("fail", "trajectory")
    assert again.phases_s == known.phases_s
    assert again.recovery_s == known.recovery_s


def test_a_suite_whose_runs_are_gone_still_has_its_rows(stocked: Shelf, tmp_path: Path) -> None:
    alone = shutil.copytree(stocked.suite, tmp_path / "suites" / "alone")
    rows = list(report_store.load_suite_rows(alone))

    assert [row.standing for row in rows] == ["not_run"] * 3
    assert "the run's folder is gone" in (rows[0].error or "")


def test_a_suite_of_an_older_chaos_can_be_opened_and_not_compared(tmp_path: Path) -> None:
    old = tmp_path / "suites" / "20261121T014500"
    old.mkdir(parents=True)
    (old / "report.html").write_text("")

    assert report_store.find_report(old).kind == "suite"
    with pytest.raises(HistoryError, match="cannot read the suite"):
        report_store.load_summaries(old)
