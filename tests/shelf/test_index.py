"""The history of suites: lost, spoilt, shared, and of another age."""

import sqlite3
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import pytest

from chaos.errors import HistoryError
from chaos.model.summary import SUITE
from chaos.run.index import SCHEMA_VERSION, SuiteIndex
from tests.report.past import past_run, past_suite


def keep(reports: Path, name: str, *scenarios: str) -> None:
    folder = reports / "suites" / name
    folder.mkdir(parents=True)
    runs = [past_run(one, directory=f"../../{one}/0-1", recovery_s=1.5) for one in scenarios]
    (folder / SUITE).write_text(past_suite(*runs, started=name).model_dump_json())


def names(index: SuiteIndex) -> list[str]:
    return [past.name for past in index.newest(99)]


def refresh(reports: Path) -> int:
    return SuiteIndex(reports).refresh()


def test_suites_are_taken_in_once_and_given_from_the_oldest(tmp_path: Path) -> None:
    for hour in (3, 1, 2):
        keep(tmp_path, f"20261121T0{hour}0000", "killed", "lost")
    index = SuiteIndex(tmp_path)

    assert index.refresh() == 3
    assert index.refresh() == 0
    assert names(index) == [f"20261121T0{hour}0000" for hour in (1, 2, 3)]
    assert [past.name for past in index.newest(1)] == ["20261121T030000"]


def test_a_run_is_found_from_the_folder_of_reports(tmp_path: Path) -> None:
    keep(tmp_path, "20261121T010000", "killed")
    index = SuiteIndex(tmp_path)
    index.refresh()
    (past,) = index.newest(9)

    assert past.suite.runs[0].directory == "killed/0-1"
    assert past.suite.runs[0].recovery_s == 1.5


def test_a_history_that_is_lost_is_made_again(tmp_path: Path) -> None:
    keep(tmp_path, "20261121T010000", "killed")
    index = SuiteIndex(tmp_path)
    index.refresh()
    index.path.unlink()

    assert index.refresh() == 1
    assert names(index) == ["20261121T010000"]


def test_what_is_known_of_a_suite_outlives_its_folder(tmp_path: Path) -> None:
    keep(tmp_path, "20261121T010000", "killed")
    index = SuiteIndex(tmp_path)
    index.refresh()
    (tmp_path / "suites/20261121T010000" / SUITE).unlink()

    assert index.refresh() == 0
    assert names(index) == ["20261121T010000"]


def test_a_file_that_is_no_database_is_set_aside(tmp_path: Path) -> None:
    keep(tmp_path, "20261121T010000", "killed")
    index = SuiteIndex(tmp_path)
    index.path.write_text("no database at all" * 100)

    assert index.refresh() == 1
    assert names(index) == ["20261121T010000"]
    assert (tmp_path / "history.sqlite.unreadable").exists()


def test_a_newer_chaos_is_not_written_over(tmp_path: Path) -> None:
    index = SuiteIndex(tmp_path)
    index.refresh()
    with closing(sqlite3.connect(index.path)) as database:
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")

    with pytest.raises(HistoryError, match="a newer chaos wrote it"):
        index.refresh()


def test_a_suite_that_cannot_be_read_is_looked_at_again(tmp_path: Path) -> None:
    keep(tmp_path, "20261121T010000", "killed")
    file = tmp_path / "suites/20261121T010000" / SUITE
    whole = file.read_text()
    file.write_text(whole[:40])
    index = SuiteIndex(tmp_path)

    assert index.refresh() == 0
    file.write_text(whole)
    assert index.refresh() == 1


def test_a_folder_that_cannot_be_written_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "history.sqlite").mkdir()

    with pytest.raises(HistoryError, match="cannot be used"):
        SuiteIndex(tmp_path).refresh()


def test_several_processes_at_once_lose_nothing_and_count_nothing_twice(tmp_path: Path) -> None:
    for number in range(12):
        keep(tmp_path, f"20261121T01{number:02}00", "killed", "lost")
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        taken = list(pool.map(refresh, [tmp_path] * 8))

    assert sum(taken) == 12
    index = SuiteIndex(tmp_path)
    assert len(names(index)) == 12
    assert sum(len(past.suite.runs) for past in index.newest(99)) == 24


def test_the_figures_can_be_asked_for_in_sql(tmp_path: Path) -> None:
    keep(tmp_path, "20261121T010000", "killed", "lost")
    index = SuiteIndex(tmp_path)
    index.refresh()
    with closing(sqlite3.connect(index.path)) as database:
        rows = database.execute("SELECT scenario, recovery_s FROM runs ORDER BY place").fetchall()

    assert rows == [("killed", 1.5), ("lost", 1.5)]


def spoilt_within(path: Path) -> None:
    """Fill all but the head, which still says that it is a database."""
    content = path.read_bytes()
    path.write_bytes(content[:200] + b"\xff" * (len(content) - 200))


def without_a_column(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("ALTER TABLE runs DROP COLUMN summary")


def with_no_utf8(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE runs SET summary = CAST(x'7b22ff' AS TEXT)")
        database.commit()


def with_half_a_summary(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE runs SET summary = substr(summary, 1, 40)")
        database.commit()


def with_a_name_that_is_no_utf8(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA foreign_keys = OFF")
        database.execute("UPDATE suites SET name = CAST(x'ff' || name AS TEXT)")
        database.commit()


@pytest.mark.parametrize(
    "spoil",
    [
        spoilt_within,
        without_a_column,
        with_no_utf8,
        with_half_a_summary,
        with_a_name_that_is_no_utf8,
    ],
)
def test_an_index_that_is_damaged_within_is_made_again(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    for hour in (1, 2):
        keep(tmp_path, f"20261121T0{hour}0000", "killed")
    index = SuiteIndex(tmp_path)
    index.refresh()
    spoil(index.path)

    (first, second) = index.newest(9)

    assert (first.name, second.name) == ("20261121T010000", "20261121T020000")
    assert second.suite.runs[0].directory == "killed/0-1"
    assert (tmp_path / "history.sqlite.unreadable").exists()


def test_an_index_that_another_process_holds_is_not_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.run.index.WAIT_S", 0.0)
    index = SuiteIndex(tmp_path)
    index.refresh()
    with closing(sqlite3.connect(index.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")

        with pytest.raises(HistoryError, match="database is locked"):
            index.newest(9)
    assert not (tmp_path / "history.sqlite.unreadable").exists()


def test_an_index_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports/history.sqlite").symlink_to("../elsewhere.sqlite")

    with pytest.raises(HistoryError, match="a symbolic link"):
        SuiteIndex(tmp_path / "reports").refresh()
    assert not (tmp_path / "elsewhere.sqlite").exists()
