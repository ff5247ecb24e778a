"""All runs of one pytest session, as the page of a suite.

Rows are attached to the tests' reports, as JSON: pytest-xdist sends reports from
its workers to the process that writes the page.
"""

from pathlib import Path

import pytest

from chaos.extensions.pytest_plugin.options import FINISHED, ROWS, Option
from chaos.run.display_path import format_path

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
        from chaos.report.terminal import build_closing_line
        from chaos.run.clock import SystemClock

        adapter = TypeAdapter(SuiteRow)
        rows = [adapter.validate_json(text) for text in self._rows]
        page = write_suite(find_reports_folder(self._config), rows, SystemClock())
        news_lines = [
            f"{row.scenario}: {row.verdict.expectation}"
            for row in rows
            if row.verdict is not None and row.verdict.is_news
        ]
        self._lines = [*news_lines, build_closing_line(rows).plain, f"report: {format_path(page)}"]

    def add_note(self, line: str) -> None:
        """Add a line for the very end, once."""
        if line and line not in self._notes:
            self._notes.append(line)

    def record_interruption(self, directory: str) -> None:
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

    from chaos.extensions.pytest_plugin.result import attach_explanation
    from chaos.report.outcome import SuiteRow

    adapter = TypeAdapter(SuiteRow)
    setattr(report, _ATTRIBUTE, [adapter.dump_json(row).decode() for row in rows])
    rows.clear()
    attach_explanation(report, item, call)
    if report.when == "teardown":
        item.stash.setdefault(FINISHED, []).clear()  # histories are large
    return report


def find_reports_folder(config: pytest.Config) -> Path:
    """Return the folder of all reports, absolute."""
    report_option = config.getoption(Option.REPORT.dest)
    if report_option is None:
        return config.rootpath / "reports"
    return Path(config.invocation_params.dir, report_option)
