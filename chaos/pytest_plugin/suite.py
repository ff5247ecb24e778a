"""All runs of one pytest session, as the page of a suite.

Rows are attached to the tests' reports, as JSON: pytest-xdist sends reports from
its workers to the process that writes the page.
"""

from pathlib import Path

import pytest

from chaos.pytest_plugin.options import FINISHED, ROWS, Option
from chaos.run.shown import shown

_ATTRIBUTE = "chaos_rows"


class Suite:
    """The rows of a session's runs; at the end it writes the suite's page, and shows its path."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._rows: list[str] = []
        self._lines: list[str] = []
        self._notes: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._rows += getattr(report, _ATTRIBUTE, ())

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Write the suite's page and JUnit file, if any scenario ran."""
        # A worker of pytest-xdist has rows too; its reports have brought them to the process that
        # writes the page, in which they are alone whole.
        if not self._rows or hasattr(self._config, "workerinput"):
            return
        from pydantic import TypeAdapter

        from chaos.harness import write_suite
        from chaos.report.outcome import SuiteRow
        from chaos.report.terminal import closing_line
        from chaos.run.clock import SystemClock

        as_json = TypeAdapter(SuiteRow)
        rows = [as_json.validate_json(text) for text in self._rows]
        page = write_suite(reports_folder(self._config), rows, SystemClock())
        news = [
            f"{row.scenario}: {row.verdict.expectation}"
            for row in rows
            if row.verdict is not None and row.verdict.is_news
        ]
        self._lines = [*news, closing_line(rows).plain, f"report: {shown(page)}"]

    def note(self, line: str) -> None:
        """Add a line for the very end, once."""
        if line and line not in self._notes:
            self._notes.append(line)

    def interrupted(self, directory: str) -> None:
        """Note the folder of a run that was broken off."""
        self._lines.append(f"interrupted; what was seen is in {directory}")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Count the scenarios and name the suite's report, at the very end."""
        if self._lines or self._notes:
            terminalreporter.ensure_newline()
            terminalreporter.section("chaos", sep="-")
            for line in (*self._notes, *self._lines):
                terminalreporter.write_line(line)


def attach_rows(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
) -> pytest.TestReport:
    """Attach the rows of a test's runs to its report."""
    rows = item.stash.get(ROWS, None)
    if rows is None:
        return report
    from pydantic import TypeAdapter

    from chaos.pytest_plugin.result import explain_on
    from chaos.report.outcome import SuiteRow

    as_json = TypeAdapter(SuiteRow)
    setattr(report, _ATTRIBUTE, [as_json.dump_json(row).decode() for row in rows])
    rows.clear()
    explain_on(report, item, call)
    if report.when == "teardown":
        item.stash.setdefault(FINISHED, []).clear()  # histories are large
    return report


def reports_folder(config: pytest.Config) -> Path:
    """Return the folder of all reports, absolute."""
    chosen = config.getoption(Option.REPORT.dest)
    if chosen is None:
        return config.rootpath / "reports"
    return Path(config.invocation_params.dir, chosen)
