"""The result of a run, for a test to make claims about, and the text of its failure.

The text is the finding, without a traceback through chaos.
"""

from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size
from typing import NamedTuple

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
from chaos.model.history import History
from chaos.model.plan import Plan
from chaos.model.verdict import Verdict
from chaos.pytest_plugin.options import FINISHED
from chaos.report import terminal
from chaos.report.outcome import FinishedRun, row_of
from chaos.report.sections import in_words, line_of
from chaos.report.terminal import plain_text
from chaos.words import plural

LINE_MAX = 120


class BrokenPromise(NamedTuple):
    """One broken promise."""

    #: the one that found it
    check: str
    message: str
    #: the numbers of those that show it
    events: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Result:
    """One judged run. Exactly one of `passed`, `failed` and `inconclusive` is true."""

    run: FinishedRun

    @property
    def passed(self) -> bool:
        """Whether every check has evidence, and found nothing."""
        return self.verdict.status == "pass"

    @property
    def failed(self) -> bool:
        """Whether a promise is broken."""
        return self.verdict.status == "fail"

    @property
    def inconclusive(self) -> bool:
        return self.verdict.status == "inconclusive"

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the one of the scenario's `expect`."""
        return self.verdict.as_expected

    @property
    def verdict(self) -> Verdict:
        """The verdict, check by check, with the diagnosis."""
        return self.run.verdict

    @property
    def headline(self) -> str:
        """The verdict in a sentence."""
        return self.verdict.headline

    @property
    def broken(self) -> tuple[str, ...]:
        """The checks that found something, the most specific first."""
        return tuple(result.check for result in self.verdict.broken)

    @property
    def anomalies(self) -> tuple[BrokenPromise, ...]:
        """All broken promises, those of the most specific check first."""
        return tuple(
            BrokenPromise(result.check, anomaly.message, anomaly.events)
            for result in self.verdict.broken
            for anomaly in result.anomalies
        )

    @property
    def attempts(self) -> int:
        """The number of worker groups; 1 if there was no restart."""
        return len(self.run.analysis.run.attempts)

    @property
    def lost_steps(self) -> int:
        """The finished steps that restarts discarded, of the rank that lost most.

        Raises `ValueError` for a job whose steps cannot be watched: their number is unknown.
        """
        lost = row_of(self.run).lost_steps
        if lost is None:
            raise ValueError("the job makes no step that could be watched, so none can be counted")
        return lost

    @property
    def recovery_s(self) -> float | None:
        """The slowest recovery: from a fault to the next attempt's first step; None without one."""
        return row_of(self.run).recovery_s

    @property
    def losses(self) -> dict[int, tuple[float | str, ...]]:
        """Every rank's losses in the surviving lineage, in order ("nan" and "inf" as text)."""
        lineage = self.run.analysis.run.lineage
        return {
            rank: tuple(
                loss
                for epoch in lineage.epochs[rank]
                for step in lineage.steps_of(rank, epoch)
                for loss in step.losses or ()
            )
            for rank in lineage.ranks
        }

    @property
    def history(self) -> History:
        """All events of the run, in order; `history.of(StepDone)` returns those of one kind."""
        return self.run.history

    @property
    def plan(self) -> Plan:
        """The executed plan: the scenario with every choice made."""
        return self.run.plan

    @property
    def directory(self) -> Path:
        return Path(self.run.directory)

    @property
    def report(self) -> Path:
        """The run's page, `report.html`."""
        return self.directory / "report.html"

    def __repr__(self) -> str:
        if self.passed:
            lost = row_of(self.run).lost_steps
            steps = "no step watched" if lost is None else f"{plural(lost, 'step')} lost"
            cost = f"{plural(self.attempts, 'attempt')}, {steps}"
            return f"<{in_words(self.verdict)}: {cost}>"
        line = line_of(self.verdict)
        return f"<{line if len(line) <= LINE_MAX else line[:LINE_MAX] + '…'}>"


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


def could_not_run(error: ChaosError) -> BaseException:
    """Return the error of a scenario with a mistake, or of chaos itself.

    If the environment lacks a need that the scenario states, the test is skipped.
    """
    if isinstance(error, UnmetNeedError):
        return pytest.skip.Exception(str(error), _use_item_location=True)
    whose = "could not run" if isinstance(error, UsageError) else "chaos itself failed"
    words = str(error).replace(f"{Path.cwd()}/", "")
    return NotRun(f"{whose}: {words}", plain_text(Text(f"{whose}\n{words}"), width=_width()))


def broken_off(why: str, seen: FinishedRun | None, *, where: str) -> BrokenOff:
    """Return the error of a run that a time-out ended; None: it was not judged."""
    line = f"broken off: {why.strip()}"
    if seen is None:
        left = f"if it had begun, its folder is below {where}: `chaos rejudge` judges what was seen"
        return BrokenOff(line, f"{line}\n{left}")
    return BrokenOff(line, plain_text(terminal.broken_off(seen, line), width=_width()))


def require_expected(result: Result) -> None:
    """Raise unless the verdict is the one that the scenario expects."""
    if not result.as_expected:
        raise NotAsExpected(line_of(result.verdict), report_text(result.run))


def report_text(run: FinishedRun) -> str:
    """Return a run's finding as text that fits the terminal."""
    return plain_text(terminal.explanation(run), width=_width())


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
            report.sections.append(("chaos: the run", report_text(run)))


def _in_place(error: ChaosFailure, item: pytest.Item) -> ReprExceptionInfo:
    """Return the failure in the form that the summary, JUnit and pytest-xdist can read."""
    path, line, _ = item.location
    lines = ReprTraceback([ReprEntryNative([f"{error.text}\n"])], None, "native")
    return ReprExceptionInfo(lines, ReprFileLocation(path, (line or 0) + 1, error.line))
