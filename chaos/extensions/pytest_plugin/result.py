"""The text of a test's failure: the finding, without a traceback through chaos."""

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
from chaos.extensions.pytest_plugin.options import FINISHED
from chaos.report import terminal
from chaos.report.outcome import FinishedRun
from chaos.report.result import Result
from chaos.report.sections import describe_finding
from chaos.report.terminal import render_plain_text

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


class TimedOut(ChaosFailure):
    """A time-out of pytest ended the run; its history so far was judged and written."""


def build_run_error(error: ChaosError) -> BaseException:
    """Return the error of a scenario with a mistake, or of chaos itself.

    If the environment lacks a need that the scenario states, the test is skipped.
    """
    if isinstance(error, UnmetNeedError):
        return pytest.skip.Exception(str(error), _use_item_location=True)
    problem_kind = "could not run" if isinstance(error, UsageError) else "chaos itself failed"
    words = str(error).replace(f"{Path.cwd()}/", "")
    return NotRun(
        f"{problem_kind}: {words}",
        render_plain_text(Text(f"{problem_kind}\n{words}"), width=_find_width()),
    )


def build_interruption_error(
    reason: str, judged_run: FinishedRun | None, *, folder_text: str
) -> TimedOut:
    """Return the error of a run that a time-out ended; None: it was not judged."""
    line = f"broken off: {reason.strip()}"
    if judged_run is None:
        rejudge_hint = (
            f"if it had begun, its folder is below {folder_text}: `chaos rejudge` judges what was "
            "seen"
        )
        return TimedOut(line, f"{line}\n{rejudge_hint}")
    return TimedOut(
        line,
        render_plain_text(terminal.describe_interrupted_run(judged_run, line), width=_find_width()),
    )


def require_expected(result: Result) -> None:
    """Raise unless the verdict is the one that the scenario expects."""
    if not result.as_expected:
        raise NotAsExpected(describe_finding(result.verdict), render_finding(result.run))


def render_finding(run: FinishedRun) -> str:
    """Return a run's finding as text that fits the terminal."""
    return render_plain_text(terminal.build_explanation(run), width=_find_width())


def _find_width() -> int:
    return max(WIDTH_MIN, min(WIDTH_MAX, get_terminal_size().columns))


def attach_explanation(
    report: pytest.TestReport, item: pytest.Item, call: pytest.CallInfo[None]
) -> None:
    """Put a finding on a test's report: instead of a traceback, or below the test's own."""
    if call.excinfo is None:
        return
    error = call.excinfo.value
    if isinstance(error, ChaosFailure):
        if report.longrepr:
            report.longrepr = _build_located_failure(error, item)
        if isinstance(error, TimedOut):  # pytest-timeout prints the stacks of chaos's own threads
            report.sections = [part for part in report.sections if "+ Timeout +" not in part[1]]
    elif report.failed:
        for run in item.stash.get(FINISHED, ()):
            report.sections.append(("chaos: the run", render_finding(run)))


def _build_located_failure(error: ChaosFailure, item: pytest.Item) -> ReprExceptionInfo:
    """Return the failure in the form that the summary, JUnit and pytest-xdist can read."""
    path, line, _ = item.location
    lines = ReprTraceback([ReprEntryNative([f"{error.text}\n"])], None, "native")
    return ReprExceptionInfo(lines, ReprFileLocation(path, (line or 0) + 1, error.line))
