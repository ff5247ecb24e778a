"""`chaos report`: the list of runs, and their reports in any form."""

import webbrowser
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column
from rich.text import Text

from chaos import report_store
from chaos.audit.card import Card
from chaos.audit.page import render_card
from chaos.audit.parts import list_parts
from chaos.cli.documents import Document, Form, Format, Output, convert_write_errors
from chaos.cli.options import REPORTS, Reports
from chaos.cli.streams import write_document
from chaos.errors import HistoryError, UsageError
from chaos.extension_modules import load_extension_module
from chaos.model.summary import STALE
from chaos.report.ci import render_json
from chaos.report.html import render_run, render_suite
from chaos.report.markdown import render_run_markdown, render_suite_markdown
from chaos.report.markdown_parts import render_markdown_parts
from chaos.report.outcome import FinishedRun
from chaos.report.screen import build_bare_table, build_console, render_plain
from chaos.report.terminal import explain_verdict, print_suite
from chaos.report.terminal_parts import render_plain_parts
from chaos.run.clock import format_iso
from chaos.run.directory import ensure_reports_folder
from chaos.run.display_path import format_path
from chaos.run.record_file import read_small_file, write_text
from chaos.run.suites import find_newest_suites, find_previous_suite, load_suite

FORMS: tuple[Form, ...] = ("text", "json", "junit", "md", "html")
_NO_FOLDER = ("no folder is given", "`chaos report` alone lists them.")


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
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--bundle",
            metavar="ZIP",
            help="Write an audit's reproductions, with script and card, for another machine.",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep", metavar="FOLDER", help="Copy an audit's reproductions into this folder."
        ),
    ] = None,
) -> None:
    """List runs, print the path of a report, or convert a report.

    Examples: chaos report; chaos report reports/node_lost/0-20261121T014500 --format md
    """
    if bundle or keep:
        other_options = {"--format": form, "--output": output, "--open": show, "--trend": trend}
        _refuse_options(other_options, "--bundle" if bundle else "--keep")
        _share_reproductions(path, bundle, keep)
        return
    document = Document.parse(form, output, *FORMS)
    if trend:
        _write_trend(reports, limit or 60, show=show)
        return
    if path is None:
        if form or output or show:
            raise UsageError(*_NO_FOLDER)
        _print_reports(reports, limit or 20)
        return
    stored_report = report_store.find_report(path)
    if form == "text" and output is None:
        write_document(f"{_render_document(stored_report, form)}\n")
    elif document.form is None:
        _write_page(stored_report)
    document.write(
        {
            document_form: partial(_render_document, stored_report, document_form)
            for document_form in FORMS
        }
    )
    if show:
        _open_page(output if output and output.suffix == ".html" else stored_report.page)


def _refuse_options(values: Mapping[str, object], option: str) -> None:
    """Raise `UsageError` for options that were given beside one that takes none of them."""
    if names := [name for name, value in values.items() if value]:
        hint = f"Leave out {' and '.join(names)}, or call `chaos report` twice."
        raise UsageError(f"{option} does not go with {' and '.join(names)}", hint)


def _share_reproductions(path: Path | None, bundle: Path | None, folder: Path | None) -> None:
    """Write the reproductions of an audit's findings, and print the files."""
    if path is None:
        raise UsageError(*_NO_FOLDER)
    module = load_extension_module("bundle.bundle", "--bundle" if bundle else "--keep")
    stored_report = report_store.find_report(path)
    if stored_report.kind != "audit":
        hint = "A run's own scenario is `scenario.yaml` in its folder."
        raise UsageError("this is no audit", hint, location=format_path(stored_report.path))
    if bundle is not None:
        contents = module.build_bundle(stored_report.path, bundle)
        write_document("".join(f"  {name}\n" for name in contents.names))
        write_document("".join(f"not in it: {omission}\n" for omission in contents.omissions))
        write_document(f"{format_path(bundle.absolute())}: {contents.code_sentence}\n")
    if folder is not None:
        files = module.keep_scenarios(stored_report.path, folder)
        write_document("".join(f"{format_path(file)}\n" for file in files))


def _write_page(stored_report: report_store.StoredReport) -> None:
    """Print the path of the page of a report, which is made where it is not there."""
    if not stored_report.page.exists():
        with convert_write_errors(stored_report.page):
            write_text(stored_report.page, _render_document(stored_report, "html"))
    write_document(f"{format_path(stored_report.page)}\n")
    if report_store.describe_outcome(stored_report) == report_store.STALE_WORD:
        build_console(stderr=True).print(STALE, style="yellow")


def _write_trend(reports: Path, limit: int, *, show: bool) -> None:
    page = ensure_reports_folder(reports, "trend.html")
    trend = load_extension_module("lab.trend", "--trend")
    text = trend.render_trend(find_newest_suites(reports, limit))
    with convert_write_errors(page):
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    write_document(f"{format_path(page.resolve())}\n")
    if show:
        _open_page(page)


def _render_card_in_markdown(card: Card) -> str:
    return render_markdown_parts(list_parts(card))


def _render_card_as_text(card: Card) -> str:
    return render_plain_parts([*list_parts(card)])


def _render_run_as_text(run: FinishedRun) -> str:
    group = explain_verdict(run.verdict, run.plan.scenario, directory=f"{run.directory}")
    return render_plain(lambda console: console.print(group))


def _render_document(stored_report: report_store.StoredReport, form: Form) -> str:
    if form == "junit":
        return (stored_report.path / "junit.xml").read_text(encoding="utf-8")
    renderers: dict[Form, Callable[[Any], str]]
    if stored_report.kind == "suite":
        return _render_suite(stored_report, form)
    if stored_report.kind == "run":
        renderers = {
            "text": _render_run_as_text,
            "md": render_run_markdown,
            "json": render_json,
            "html": render_run,
        }
        return renderers[form](report_store.load_run(stored_report.path))
    renderers = {
        "text": _render_card_as_text,
        "md": _render_card_in_markdown,
        "json": Card.to_json,
        "html": render_card,
    }
    try:
        card = Card.from_json(read_small_file(stored_report.path / report_store.AUDIT))
    except (ValueError, RecursionError) as error:
        raise HistoryError(
            "not an audit of this version", location=str(stored_report.path)
        ) from error
    return renderers[form](card)


def _render_suite(stored_report: report_store.StoredReport, form: Form) -> str:
    suite = load_suite(stored_report.path)
    if form == "json":
        return suite.model_dump_json(indent=2)
    rows = list(report_store.load_suite_rows(stored_report.path))
    if form == "md":
        return render_suite_markdown(rows)
    if form == "text":
        return render_plain(partial(print_suite, rows))
    return render_suite(
        rows,
        suite,
        folder=format_path(stored_report.path),
        previous_suite=find_previous_suite(stored_report.path, suite),
    )


def _print_reports(reports: Path, limit: int) -> None:
    stored_reports = report_store.list_reports(reports)[:limit]
    if not stored_reports:
        build_console().print(f"nothing was run yet: there is nothing in {reports}", soft_wrap=True)
        return
    headings = (Column(name, no_wrap=True) for name in ("kind", "began", "came to"))
    table = build_bare_table(*headings, Column("folder", overflow="fold"))
    for stored_report in stored_reports:
        outcome = report_store.describe_outcome(stored_report)
        cells = (
            stored_report.kind,
            format_iso(stored_report.stamp),
            outcome,
            format_path(stored_report.path.resolve()),
        )
        table.add_row(*(Text(cell) for cell in cells))
    build_console().print(table)


def _open_page(page: Path) -> None:
    if not webbrowser.open(page.resolve().as_uri()):
        raise UsageError("no browser was found", "Open the page by hand.", location=str(page))
