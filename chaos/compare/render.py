"""A comparison in a terminal, in Markdown, and as JSON."""

import json
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Column
from rich.text import Text

from chaos.compare.comparison import (
    ALPHA,
    FAIL_ON_BOTH,
    MEASURES,
    OPEN,
    Change,
    SuiteComparison,
)
from chaos.model.summary import STALE, RunSummary
from chaos.report.markdown import code, fitted, plain, table
from chaos.report.screen import bare_table, numbers
from chaos.words import plural

_STYLES = {"worse": "bold red", "regression": "bold red", "better": "green", "fixed": "green"}
_HEAD = ("scenario", "measure", "before", "after", "p", "told")


def in_terminal(found: SuiteComparison, *, before: str, after: str) -> RenderableType:
    """Return a table that fits 80 columns; a word has the meaning that colour repeats."""
    shown = bare_table(
        Column("scenario", overflow="fold", ratio=1),
        Column("measure", no_wrap=True),
        *numbers("before", "after", "p"),
        Column("told", no_wrap=True),
    )
    for cells in _rows(found):
        *plainly, told = cells
        style = _STYLES.get(
            told.partition(",")[0], "yellow" if told in (*OPEN, *FAIL_ON_BOTH) else ""
        )
        shown.add_row(*(Text(cell) for cell in plainly), Text(told, style=style))
    lines: list[RenderableType] = [Text(f"before  {before}"), Text(f"after   {after}")]
    for name, (left, right) in found.differences.items():
        lines.append(Text(f"{name}: {left} → {right}", style="dim"))
    tail = Text(found.sentence, style="bold red" if found.regressions else "bold")
    return Group(*lines, Text(""), shown, Text(""), *(Text(n) for n in _notes(found)), tail)


def in_markdown(found: SuiteComparison, *, before: str, after: str) -> str:
    """Return the table in Markdown, for a pull request."""
    sign = "❌" if found.regressions else "✅" if found.exit_code == 0 else "❔"
    lines = [f"# {sign} {found.sentence}", "", f"before: {code(before)}, after: {code(after)}", ""]
    if found.differences:
        rows = [
            (plain(n), plain(left), plain(right)) for n, (left, right) in found.differences.items()
        ]
        lines += [*table(("differs", "before", "after"), rows), ""]
    lines += table(_HEAD, ([plain(cell) for cell in row] for row in _rows(found)))
    return fitted("\n".join([*lines, "", *(f"{note}  " for note in _notes(found))]) + "\n")


def in_json(found: SuiteComparison, *, before: str, after: str) -> str:
    """Return all figures, with the single values."""
    scenarios = [
        {
            "scenario": row.scenario,
            "verdict": row.fate,
            "before": _stood(row.before),
            "after": _stood(row.after),
            "regression": row.is_regression,
            "measures": {
                change.measure.name: {
                    "unit": change.measure.unit,
                    "before": change.before,
                    "after": change.after,
                    "told": change.shown,
                    "p_holm": change.p,
                    "least_p": change.least_p,
                    "cliffs_delta": change.delta,
                }
                for change in row.changes
            },
        }
        for row in found.scenarios
    ]
    suite = {
        "before": before,
        "after": after,
        "told": found.sentence,
        "exit_code": found.exit_code,
        "repeats_needed": found.repeats_needed,
        "differences": found.differences,
        "scenarios": scenarios,
    }
    return json.dumps(suite, indent=2, ensure_ascii=False) + "\n"


def _rows(found: SuiteComparison) -> Iterator[tuple[str, ...]]:
    for row in found.scenarios:
        yield row.scenario, "verdict", _stood(row.before), _stood(row.after), "", row.fate
        for change in row.changes:
            p = "-" if change.p is None else f"{change.p:.3f}"
            yield ("", change.measure.name, *_middles(change), p, _shown(change))


def _stood(runs: tuple[RunSummary, ...]) -> str:
    if not runs:
        return "-"
    if len(runs) == 1:
        return {"not_run": "not run", "undecided": "inconclusive"}.get(
            runs[0].standing, runs[0].standing
        )
    return f"{sum(run.standing == 'expected' for run in runs)} of {len(runs)}"


def _middles(change: Change) -> tuple[str, str]:
    sides = zip(change.medians, (change.before, change.after), strict=True)
    unit = f" {change.measure.unit}" if change.measure.unit else ""
    left, right = (
        f"{middle:.3g}{unit}" + (f" (n={len(side)})" if len(side) > 1 else "")
        for middle, side in sides
    )
    return left, right


def _shown(change: Change) -> str:
    if change.shown in ("worse", "better"):
        return f"{change.shown}, d={change.delta:+.2f}"
    return change.shown


def _notes(found: SuiteComparison) -> Iterator[str]:
    for row in found.scenarios:
        if any(run.headline == STALE for run in (*row.before, *row.after)):
            yield f"{row.scenario}: {STALE}."
    changes = [change for row in found.scenarios for change in row.changes]
    tested = sum(change.p is not None for change in changes)
    if tested:
        yield (
            f"p: Mann and Whitney's test, exact, corrected after Holm for {tested} tests; worse or "
            f"better where it is at most {ALPHA:g}. d: Cliff's delta. Figures are medians."
        )
    if any(change.shown == "inconclusive" for change in changes):
        number = found.repeats_needed
        yield (
            f"Too few repeats to tell a change from noise: {number} on each side could show one in "
            f"any of {len(MEASURES)} measures of {plural(found.in_common, 'scenario')} "
            f"(`chaos run --repeat {number}`)."
        )
