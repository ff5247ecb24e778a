"""The suites under `reports/suites/`, read back in figures."""

import contextlib
import posixpath
from pathlib import Path

from pydantic import ValidationError

from chaos.errors import HistoryError
from chaos.model.summary import SUITE, RunSummary, SuiteSummary, find_gravest_standings
from chaos.model.verdict import Standing
from chaos.run.clock import format_iso
from chaos.run.display_path import format_portable_path
from chaos.run.record_file import read_small_file

SUITES = "suites"
SUITES_MAX = 200  # the newest suites, among which the one before is looked for


def load_suite(path: Path) -> SuiteSummary:
    """Return a suite in figures, or raise `HistoryError`."""
    file = path / SUITE
    try:
        suite = SuiteSummary.model_validate_json(read_small_file(file))
    except OSError as error:
        raise HistoryError(
            f"cannot read the suite: {error.strerror}",
            "It is of an older chaos, which kept only its page.",
            location=str(file),
        ) from error
    except ValidationError as error:
        raise HistoryError("not a suite of this version", location=str(file)) from error
    return suite if suite.reports is not None else _upgrade_suite(suite, path.name)


def find_newest_suites(reports: Path, limit: int) -> list[tuple[str, SuiteSummary]]:
    """Return the newest suites, the oldest of them first, each with its folder's name.

    A suite that cannot be read, half written or of another version, is left out.
    """
    suites: list[tuple[str, SuiteSummary]] = []
    for file in sorted(reports.glob(f"{SUITES}/*/{SUITE}"), reverse=True):
        if len(suites) == limit:
            break
        with contextlib.suppress(HistoryError):
            suites.append((file.parent.name, load_suite(file.parent)))
    return suites[::-1]


def find_latest_standings(reports: Path) -> dict[str, Standing]:
    """Return how the scenario of each file stood, at worst, in the last suite that ran it."""
    standings: dict[str, Standing] = {}
    for _, suite in find_newest_suites(reports, SUITES_MAX):
        standings |= {
            key.file: standing for key, standing in find_gravest_standings(suite.runs).items()
        }
    return standings


def find_previous_suite(folder: Path, suite: SuiteSummary) -> tuple[str, SuiteSummary] | None:
    """Return the last suite of the same scenarios' folder before the one in this folder."""
    suites = find_newest_suites(folder.parents[1], SUITES_MAX)
    candidates = [
        candidate
        for candidate in suites
        if candidate[0] < folder.name and candidate[1].title == suite.title
    ]
    return candidates[-1] if candidates else None


def _upgrade_suite(suite: SuiteSummary, name: str) -> SuiteSummary:
    """Return a suite of an older chaos: its paths were absolute, or relative to its folder."""

    def upgrade_run(run: RunSummary) -> RunSummary:
        paths = {"file": format_portable_path(run.file)}
        if run.directory is not None:
            paths["directory"] = posixpath.normpath(posixpath.join(SUITES, name, run.directory))
        return run.model_copy(update=paths)

    runs = tuple(map(upgrade_run, suite.runs))
    return suite.replace(started=format_iso(suite.started), runs=runs)
