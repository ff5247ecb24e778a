"""The history of suites: one SQLite file under `reports/`, made from the suites' own folders.

It can be deleted at any time: what `suites/*/suite.json` still tells is read in
again. What it knows of folders that are gone stays. Several processes may use
it at once: each writes in one transaction, and waits for the other's.
"""

import posixpath
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from chaos.errors import HistoryError
from chaos.model.summary import SUITE, RunSummary, SuiteSummary
from chaos.run.record_file import read_record, refuse_link

INDEX = "history.sqlite"
SCHEMA_VERSION = 1
WAIT_S = 30.0

_TABLES = """
CREATE TABLE suites (
    name TEXT PRIMARY KEY,
    started TEXT NOT NULL
) STRICT;
CREATE TABLE runs (
    suite TEXT NOT NULL REFERENCES suites (name) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    scenario TEXT NOT NULL,
    backend TEXT,
    standing TEXT NOT NULL,
    status TEXT,
    broken TEXT,
    lost_steps INTEGER,
    recovery_s REAL,
    goodput REAL,
    duration_s REAL NOT NULL,
    summary TEXT NOT NULL,
    PRIMARY KEY (suite, place)
) STRICT;
"""


# What a damaged file leads to; that a text in it is no UTF-8 is Python's own to say.
_DAMAGE = (sqlite3.Error, UnicodeDecodeError, ValidationError)
_IN_THE_WAY = tuple(
    f"SQLITE_{word}"
    for word in ("AUTH", "BUSY", "CANTOPEN", "FULL", "IOERR", "LOCKED", "NOMEM", "PERM", "READONLY")
)

T = TypeVar("T")


@dataclass(frozen=True)
class PastSuite:
    """A suite of the history; the directories of its runs are relative to `reports`."""

    name: str
    suite: SuiteSummary


@dataclass(frozen=True)
class SuiteIndex:
    """The index of one folder of reports."""

    reports: Path

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return self.reports / INDEX

    def refresh(self) -> int:
        """Take in every suite whose folder is not known yet; gives how many those were.

        Raises `HistoryError` where a newer chaos wrote the index, or it cannot be written.
        """
        return self._mended(self._take_in)

    def newest(self, limit: int) -> list[PastSuite]:
        """Return the newest suites, oldest of them first; raises as `refresh` does."""
        return self._mended(partial(self._newest, limit))

    def _mended(self, ask: Callable[[], T]) -> T:
        """Ask; where the file is damaged, set it aside and ask once more, of a new one."""
        try:
            return ask()
        except _DAMAGE as error:
            if _is_in_the_way(error):
                raise self._unusable(error) from error
            with suppress(FileNotFoundError):
                self.path.replace(self.path.with_name(f"{INDEX}.unreadable"))
        try:
            return ask()
        except _DAMAGE as error:
            raise self._unusable(error) from error

    def _newest(self, limit: int) -> list[PastSuite]:
        self._take_in()
        with self._writing() as database:
            names = database.execute(
                "SELECT name, started FROM suites ORDER BY started DESC, name DESC LIMIT ?",
                (limit,),
            ).fetchall()
            return [
                PastSuite(name, SuiteSummary(started=started, runs=_runs(database, name)))
                for name, started in reversed(names)
            ]

    def _take_in(self) -> int:
        found = sorted(self.reports.glob(f"suites/*/{SUITE}"))
        with self._writing() as database:
            known = {name for (name,) in database.execute("SELECT name FROM suites")}
            fresh = [file for file in found if file.parent.name not in known]
            return sum(_add(database, file) for file in fresh)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection inside one transaction, which is undone where anything fails."""
        self.reports.mkdir(parents=True, exist_ok=True)
        refuse_link(self.path)
        with closing(sqlite3.connect(self.path, timeout=WAIT_S, isolation_level=None)) as database:
            database.execute("PRAGMA foreign_keys = ON")
            database.execute("BEGIN IMMEDIATE")
            try:
                self._prepare(database)
                yield database
            except BaseException:
                with suppress(sqlite3.Error):
                    database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")

    def _prepare(self, database: sqlite3.Connection) -> None:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise HistoryError(
                f"a newer chaos wrote it (schema {version}, this one knows {SCHEMA_VERSION})",
                "Use that chaos, or delete the file: it is made again from suites/.",
                place=str(self.path),
            )
        if version < SCHEMA_VERSION:
            for statement in filter(str.strip, _TABLES.split(";")):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _unusable(self, error: Exception) -> HistoryError:
        return HistoryError(
            f"the history of suites cannot be used: {error}",
            "Delete the file: it is made again from suites/.",
            place=str(self.path),
        )


def _is_in_the_way(error: Exception) -> bool:
    """Return whether the cause is another process, the disk or permissions, not damage."""
    return getattr(error, "sqlite_errorname", "").startswith(_IN_THE_WAY)


def _add(database: sqlite3.Connection, file: Path) -> bool:
    """Write one suite down, and say whether it could be read."""
    try:
        suite = SuiteSummary.model_validate_json(read_record(file))
    except (OSError, HistoryError, ValidationError):
        return False  # of another version, or half written: it is looked at again next time
    name = file.parent.name
    database.execute("INSERT INTO suites VALUES (?, ?)", (name, suite.started))
    for place, run in enumerate(suite.runs):
        row = _from_reports(run, name)
        database.execute(
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                name,
                place,
                row.scenario,
                row.backend,
                row.standing,
                row.status,
                row.broken,
                row.lost_steps,
                row.recovery_s,
                row.goodput,
                row.duration_s,
                row.model_dump_json(),
            ),
        )
    return True


def _from_reports(run: RunSummary, name: str) -> RunSummary:
    if run.directory is None:
        return run
    path = posixpath.normpath(posixpath.join("suites", name, run.directory))
    return run.model_copy(update={"directory": path})


def _runs(database: sqlite3.Connection, name: str) -> tuple[RunSummary, ...]:
    rows = database.execute("SELECT summary FROM runs WHERE suite = ? ORDER BY place", (name,))
    return tuple(RunSummary.model_validate_json(text) for (text,) in rows)
