"""Consoles print text, whatever it is, wherever it goes."""

import io
import re

import pytest
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from chaos.report.live import LiveOutput
from chaos.report.outcome import FinishedRun, build_suite_row
from chaos.report.screen import build_console
from chaos.report.terminal import build_verdict_table, explain_verdict
from tests.report.hostile import HOSTILE, OBEYED, named


def printed(*what: object, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    console = build_console(file=io.TextIOWrapper(raw, encoding, newline=""), width=80)
    for each in what:
        console.print(each)
    return raw.getvalue().decode(encoding)


def test_brackets_and_colons_are_text() -> None:
    assert printed("rep[/b] [red]x[/red] :bug:") == "rep[/b] [red]x[/red] :bug:\n"


def test_nothing_printed_is_obeyed(guilty_run: FinishedRun) -> None:
    run, table = named(guilty_run), Table(title=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)
    panel = Panel(Text(HOSTILE), title=Text(HOSTILE))
    shown = printed(
        HOSTILE, Text(HOSTILE), table, panel, build_verdict_table([build_suite_row(run)])
    )
    shown += printed(explain_verdict(run.verdict, HOSTILE, directory=HOSTILE))

    assert not OBEYED.search(shown)
    assert "a\\u001b]0;x" in shown


def test_github_finds_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    shown = printed(HOSTILE, Text(f"{'x' * 79} ::error::folded ##[error]y"))

    assert "boom" in shown
    assert "folded" in shown
    assert not re.search(r"(?m)^\s*::|##\[", shown)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_narrow_encoding_keeps_the_table_and_its_words(
    encoding: str, valid_run: FinishedRun, guilty_run: FinishedRun
) -> None:
    shown = printed(
        build_verdict_table([build_suite_row(valid_run), build_suite_row(guilty_run)]),
        "漢",
        encoding=encoding,
    )

    assert "+ pass" in shown
    assert "x fail" in shown
    assert "\\u6f22" in shown


def test_a_reader_who_leaves_ends_nothing() -> None:
    class Left(io.StringIO):
        def write(self, text: str, /) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    console = build_console(file=Left())
    console.print("one")
    console.print("two")

    assert console.quiet


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "dumb")
    out = Terminal()
    with LiveOutput(build_console(file=out)) as moving:
        assert not moving.can_replace
        moving.write_line(Text("one"))

    assert out.getvalue() == "one\n"
