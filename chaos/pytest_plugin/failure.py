"""The text of a scenario's failure: the finding, and no traceback through chaos."""

from pathlib import Path
from shutil import get_terminal_size

import pytest
from _pytest._code.code import (
    ReprEntryNative,
    ReprExceptionInfo,
    ReprFileLocation,
    ReprTraceback,
)
from _pytest.outcomes import Failed
from rich.text import Text

from chaos.errors import ChaosError, UnmetNeedError, UsageError
from chaos.pytest_plugin.keys import FINISHED
from chaos.pytest_plugin.result import Result
from chaos.report import brief
from chaos.report.brief import line_of, plain_text
from chaos.report.outcome import FinishedRun

WIDTH_MIN, WIDTH_MAX = 60, 100


class ChaosFailure(Failed):
    """A scenario does not pass; it has a text of one line, and a long one."""

    def __init__(self, line: str, text: str = "") -> None:
        super().__init__(line, pytrace=False)
        self.line = line
        self.text = text or line


class NotAsExpected(ChaosFailure):
    """The run's verdict is not the one that the scenario expects."""


class Undecided(ChaosFailure):
    """The run is inconclusive, which is no pass."""


class NotRun(ChaosFailure):
    """The scenario could not run, because of a mistake in it or a problem of the machine."""


class BrokenOff(ChaosFailure):
    """A time-out of pytest ended the run; its history so far was judged and written."""


def not_as_expected(run: FinishedRun) -> NotAsExpected:
    """Return the failure of a judged run."""
    return NotAsExpected(line_of(run.verdict), told(run))


def undecided(run: FinishedRun) -> Undecided:
    """Return the error of an inconclusive run."""
    return Undecided(line_of(run.verdict), told(run))


def could_not_run(error: ChaosError) -> BaseException:
    """Return the error of a scenario with a mistake, or of chaos itself.

    If the environment lacks a need that the scenario states, the test is skipped.
    """
    if isinstance(error, UnmetNeedError):
        return pytest.skip.Exception(str(error), _use_item_location=True)
    whose = "could not run" if isinstance(error, UsageError) else "chaos itself failed"
    words = str(error).replace(f"{Path.cwd()}/", "")
    text = Text(f"{whose}\n").append_text(Text(words))
    return NotRun(f"{whose}: {words}", plain_text(text, width=_width()))


def broken_off(why: str, seen: FinishedRun | None, *, where: str) -> BrokenOff:
    """Return the error of a run that a time-out ended; None: it was not judged."""
    line = f"broken off: {why.strip()}"
    if seen is None:
        left = f"if it had begun, its folder is below {where}: `chaos rejudge` judges what was seen"
        return BrokenOff(line, f"{line}\n{left}")
    words = brief.broken_off(seen, line, page=_page(seen))
    return BrokenOff(line, plain_text(words, width=_width()))


def require_expected(result: Result) -> None:
    """Raise unless the verdict is the one that the scenario expects."""
    if not result.as_expected:
        raise not_as_expected(result.run)


def told(run: FinishedRun) -> str:
    """Return a run's finding as text that fits the terminal."""
    return plain_text(brief.explanation(run, page=_page(run)), width=_width())


def _page(run: FinishedRun) -> str:
    return f"{run.directory}/report.html"


def _width() -> int:
    return max(WIDTH_MIN, min(WIDTH_MAX, get_terminal_size().columns))


def explain_on(report: pytest.TestReport, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Put a finding on a test's report: instead of a traceback, or below the test's own."""
    if call.excinfo is None:
        return
    error = call.excinfo.value
    if isinstance(error, ChaosFailure):
        if report.longrepr:
            report.longrepr = _in_place(error, item)
        if isinstance(error, BrokenOff):  # pytest-timeout prints the stacks of chaos's own threads
            report.sections = [part for part in report.sections if "+ Timeout +" not in part[1]]
    elif report.failed:
        for run in item.stash.get(FINISHED, ()):
            report.sections.append(("chaos: the run", told(run)))


def _in_place(error: ChaosFailure, item: pytest.Item) -> ReprExceptionInfo:
    """Return the failure in the form that the summary, JUnit and pytest-xdist can read."""
    path, line, _ = item.location
    lines = ReprTraceback([ReprEntryNative([f"{error.text}\n"])], None, "native")
    return ReprExceptionInfo(lines, ReprFileLocation(path, (line or 0) + 1, error.line))
