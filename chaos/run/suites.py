"""The suites under `reports/suites/`, read back in figures."""

import contextlib
from pathlib import Path

from pydantic import ValidationError

from chaos.errors import HistoryError
from chaos.model.summary import SUITE, SuiteSummary, find_gravest_standings
from chaos.model.verdict import Standing
from chaos.run.record_file import read_small_file

SUITES = "suites"
SUITES_MAX = 200  # the newest suites, among which the one before is looked for


def load_suite(path: Path) -> SuiteSummary:
    """Return a suite in figures, or raise `HistoryError`."""
    file = path / SUITE
    try:
        return SuiteSummary.model_validate_json(read_small_file(file))
    except OSError as error:
        raise HistoryError(
            f"cannot read the suite: {error.strerror}",
            location=str(file),
        ) from error
    except ValidationError as error:
        raise HistoryError("not a suite of this version", location=str(file)) from error


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
