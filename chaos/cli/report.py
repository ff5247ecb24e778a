"""`chaos report` and `chaos trend`: what was run, to look at and to hand on."""

import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer
from rich.table import Table
from rich.text import Text

from chaos import shelf
from chaos.audit.card import Card
from chaos.audit.markdown import card_in_markdown
from chaos.audit.page import render_card
from chaos.cli.streams import write_document
from chaos.errors import HistoryError, UsageError
from chaos.model.summary import STALE
from chaos.report.html import render_run, render_suite, render_trend
from chaos.report.markdown import run_in_markdown, suite_in_markdown
from chaos.report.screen import screen
from chaos.report.summary import run_in_json
from chaos.run.index import SuiteIndex
from chaos.run.record_file import read_record
from chaos.run.shown import shown
from chaos.run.whole_file import write_text

Format: TypeAlias = Literal["md", "json", "html"]
TREND = "trend.html"

Reports = Annotated[Path, typer.Option("--reports", help="Where runs and suites are kept.")]
Open = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]


def report(
    path: Annotated[
        Path | None, typer.Argument(help="Folder of a run, a suite or an audit; none: list them.")
    ] = None,
    *,
    form: Annotated[
        Format | None, typer.Option("--format", help="Write the report itself, in this form.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it here, not to the terminal.")
    ] = None,
    reports: Reports = Path("reports"),
    limit: Annotated[int, typer.Option("--limit", min=1, help="List as many at most.")] = 20,
    show: Open = False,
) -> None:
    """List what was run, or say where a report is, or write one in another form.

    Example: chaos report reports/node_lost/0-20261121T014500 --format md
    """
    if path is None:
        if form or output or show:
            raise UsageError("which report?", "`chaos report` alone lists them; give a folder.")
        screen().print(_listed(shelf.items(reports)[:limit], reports))
        return
    item = shelf.item_at(path)
    if form is not None or output is not None:
        _write(_document(item, form or _form_of(output)), output)
    else:
        if not item.page.exists():
            with _writable(item.page):
                write_text(item.page, _document(item, "html"))
        write_document(f"{shown(item.page)}\n")
        if shelf.came_to(item) == shelf.STALE_WORD:
            screen(stderr=True).print(STALE, style="yellow")
    if show:
        _open(output if output and output.suffix == ".html" else item.page)


def trend(
    *,
    reports: Reports = Path("reports"),
    limit: Annotated[int, typer.Option("--limit", min=1, help="The newest suites.")] = 60,
    show: Open = False,
) -> None:
    """Write the page that shows how suites went over time, and say where it is.

    Example: chaos trend --open
    """
    index = SuiteIndex(reports)
    index.refresh()
    page = reports / TREND
    text = render_trend([(past.name, past.suite) for past in index.newest(limit)])
    _write(text, page)
    write_document(f"{shown(page.resolve())}\n")
    if show:
        _open(page)


def _document(item: shelf.Item, form: Format) -> str:
    match item.kind:
        case "run":
            run = shelf.read_run(item.path)
            makers = {"md": run_in_markdown, "json": run_in_json, "html": render_run}
            return makers[form](run)
        case "suite":
            return _suite(item, form)
        case "audit":
            return _audit(item, form)


def _suite(item: shelf.Item, form: Format) -> str:
    suite = shelf.read_suite(item.path)
    if form == "json":
        return suite.model_dump_json(indent=2) + "\n"
    rows = list(shelf.rows_of(item.path))
    if form == "md":
        return suite_in_markdown(rows)
    return render_suite(rows, title="chaos", started=suite.started, folder=shown(item.path))


def _audit(item: shelf.Item, form: Format) -> str:
    try:
        card = Card.from_json(read_record(item.path / shelf.AUDIT))
    except (ValueError, RecursionError) as error:
        raise HistoryError("not an audit of this version", place=str(item.path)) from error
    makers = {"md": card_in_markdown, "json": Card.to_json, "html": render_card}
    return makers[form](card)


def _listed(items: Sequence[shelf.Item], reports: Path) -> Table | Text:
    if not items:
        return Text(f"nothing was run yet: there is nothing in {reports}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("kind", "began (UTC)", "came to"):
        table.add_column(name, no_wrap=True)
    table.add_column("folder", overflow="fold", ratio=1)
    for item in items:
        came_to = shelf.came_to(item)
        cells = (item.kind, item.stamp.replace("T", " "), came_to, shown(item.path.resolve()))
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _form_of(output: Path | None) -> Format:
    """Tell the form by the file's name."""
    forms: dict[str, Format] = {".md": "md", ".json": "json", ".html": "html"}
    form = forms.get(output.suffix if output else "")
    if form is None:
        raise UsageError(
            "which form?",
            "Give --format, or a file that ends in .md, .json or .html.",
            place=str(output),
        )
    return form


def _write(text: str, output: Path | None) -> None:
    if output is None:
        write_document(text if text.endswith("\n") else text + "\n")
        return
    with _writable(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")


@contextmanager
def _writable(output: Path) -> Iterator[None]:
    """Have what keeps a file from being written be the caller's to put right."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write there: {error.strerror}", place=str(output)) from error


def _open(page: Path) -> None:
    if not webbrowser.open(page.resolve().as_uri()):
        raise UsageError("no browser was found", "Open the page by hand.", place=str(page))
