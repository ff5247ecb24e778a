"""The suites under `reports/suites/`, read back in figures."""

import contextlib
import posixpath
from pathlib import Path

from pydantic import ValidationError

from chaos.errors import HistoryError
from chaos.model.summary import SUITE, RunSummary, SuiteSummary, gravest
from chaos.model.verdict import Standing
from chaos.run.clock import in_iso
from chaos.run.record_file import read_record
from chaos.run.shown import for_others

SUITES = "suites"
LOOKED_AT = 200  # the newest suites, among which the one before is looked for


def read_suite(path: Path) -> SuiteSummary:
    """Return a suite in figures, or raise `HistoryError`."""
    file = path / SUITE
    try:
        suite = SuiteSummary.model_validate_json(read_record(file))
    except OSError as error:
        raise HistoryError(
            f"cannot read the suite: {error.strerror}",
            "It is of an older chaos, which kept only its page.",
            place=str(file),
        ) from error
    except ValidationError as error:
        raise HistoryError("not a suite of this version", place=str(file)) from error
    return suite if suite.reports is not None else _as_today(suite, path.name)


def newest_suites(reports: Path, limit: int) -> list[tuple[str, SuiteSummary]]:
    """Return the newest suites, the oldest of them first, each with its folder's name.

    A suite that cannot be read, half written or of another version, is left out.
    """
    found: list[tuple[str, SuiteSummary]] = []
    for file in sorted(reports.glob(f"{SUITES}/*/{SUITE}"), reverse=True):
        if len(found) == limit:
            break
        with contextlib.suppress(HistoryError):
            found.append((file.parent.name, read_suite(file.parent)))
    return found[::-1]


def last_standings(reports: Path) -> dict[str, Standing]:
    """Return how the scenario of each file stood, at worst, in the last suite that ran it."""
    found: dict[str, Standing] = {}
    for _, suite in newest_suites(reports, LOOKED_AT):
        found |= {key.file: standing for key, standing in gravest(suite.runs).items()}
    return found


def suite_before(folder: Path, suite: SuiteSummary) -> tuple[str, SuiteSummary] | None:
    """Return the last suite of the same scenarios' folder before the one in this folder."""
    known = newest_suites(folder.parents[1], LOOKED_AT)
    alike = [each for each in known if each[0] < folder.name and each[1].title == suite.title]
    return alike[-1] if alike else None


def _as_today(suite: SuiteSummary, name: str) -> SuiteSummary:
    """Return a suite of an older chaos: its paths were absolute, or relative to its folder."""

    def of_today(run: RunSummary) -> RunSummary:
        paths = {"file": for_others(run.file)}
        if run.directory is not None:
            paths["directory"] = posixpath.normpath(posixpath.join(SUITES, name, run.directory))
        return run.model_copy(update=paths)

    runs = tuple(map(of_today, suite.runs))
    return suite.model_copy(update={"started": in_iso(suite.started), "runs": runs})
