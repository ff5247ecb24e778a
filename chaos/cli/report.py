"""`chaos report`: the list of runs, and their reports in any form."""

import webbrowser
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column
from rich.text import Text

from chaos import shelf
from chaos.audit.card import Card
from chaos.audit.page import card_in_markdown, render_card
from chaos.cli.documents import Document, Form, Format, Output, writable
from chaos.cli.options import REPORTS, Reports
from chaos.cli.streams import write_document
from chaos.errors import HistoryError, UsageError
from chaos.model.summary import STALE
from chaos.report.ci import run_in_json
from chaos.report.html import render_run, render_suite, render_trend
from chaos.report.markdown import run_in_markdown, suite_in_markdown
from chaos.report.screen import bare_table, screen
from chaos.run.clock import in_iso
from chaos.run.directory import in_reports
from chaos.run.record_file import read_record, write_text
from chaos.run.shown import shown
from chaos.run.suites import newest_suites, read_suite, suite_before

FORMS: tuple[Form, ...] = ("json", "junit", "md", "html")


def report(  # noqa: PLR0913 - one parameter per option
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER", help="Folder of a run, a suite or an audit. Default: list all."
        ),
    ] = None,
    *,
    trend: Annotated[
        bool, typer.Option("--trend", help="Write the page of all suites over time.")
    ] = False,
    form: Format = None,
    output: Output = None,
    reports: Reports = REPORTS,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, metavar="N", help="Newest entries. Default: 20; trend: 60."),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """List runs, print the path of a report, or convert a report.

    Examples: chaos report; chaos report reports/node_lost/0-20261121T014500 --format md
    """
    document = Document.asked(form, output, *FORMS)
    if trend:
        _trend(reports, limit or 60, show=show)
        return
    if path is None:
        if form or output or show:
            raise UsageError("no folder is given", "`chaos report` alone lists them.")
        _list(reports, limit or 20)
        return
    item = shelf.item_at(path)
    if document.form is None:
        if not item.page.exists():
            with writable(item.page):
                write_text(item.page, _document(item, "html"))
        write_document(f"{shown(item.page)}\n")
        if shelf.came_to(item) == shelf.STALE_WORD:
            screen(stderr=True).print(STALE, style="yellow")
    document.write({each: partial(_document, item, each) for each in FORMS})
    if show:
        _open(output if output and output.suffix == ".html" else item.page)


def _trend(reports: Path, limit: int, *, show: bool) -> None:
    page = in_reports(reports, "trend.html")
    text = render_trend(newest_suites(reports, limit))
    with writable(page):
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    write_document(f"{shown(page.resolve())}\n")
    if show:
        _open(page)


def _document(item: shelf.Item, form: Form) -> str:
    if form == "junit":
        return (item.path / "junit.xml").read_text(encoding="utf-8")
    makers: dict[Form, Callable[[Any], str]]
    if item.kind == "suite":
        return _suite(item, form)
    if item.kind == "run":
        makers = {"md": run_in_markdown, "json": run_in_json, "html": render_run}
        return makers[form](shelf.read_run(item.path))
    makers = {"md": card_in_markdown, "json": Card.to_json, "html": render_card}
    try:
        card = Card.from_json(read_record(item.path / shelf.AUDIT))
    except (ValueError, RecursionError) as error:
        raise HistoryError("not an audit of this version", place=str(item.path)) from error
    return makers[form](card)


def _suite(item: shelf.Item, form: Form) -> str:
    suite = read_suite(item.path)
    if form == "json":
        return suite.model_dump_json(indent=2)
    rows = list(shelf.rows_of(item.path))
    if form == "md":
        return suite_in_markdown(rows)
    return render_suite(rows, suite, folder=shown(item.path), before=suite_before(item.path, suite))


def _list(reports: Path, limit: int) -> None:
    items = shelf.items(reports)[:limit]
    if not items:
        screen().print(f"nothing was run yet: there is nothing in {reports}", soft_wrap=True)
        return
    heads = (Column(name, no_wrap=True) for name in ("kind", "began", "came to"))
    table = bare_table(*heads, Column("folder", overflow="fold"))
    for item in items:
        came_to = shelf.came_to(item)
        cells = (item.kind, in_iso(item.stamp), came_to, shown(item.path.resolve()))
        table.add_row(*(Text(cell) for cell in cells))
    screen().print(table)


def _open(page: Path) -> None:
    if not webbrowser.open(page.resolve().as_uri()):
        raise UsageError("no browser was found", "Open the page by hand.", place=str(page))
