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
    MeasureChange,
    SuiteComparison,
)
from chaos.model.summary import STALE, RunSummary
from chaos.report.markdown import build_table_lines, escape_markdown, fit_text, format_code
from chaos.report.screen import build_bare_table, build_number_columns
from chaos.wording import plural

_STYLES = {"worse": "bold red", "regression": "bold red", "better": "green", "fixed": "green"}
_HEAD = ("scenario", "measure", "before", "after", "p", "told")


def render_terminal(
    comparison: SuiteComparison, *, before_path: str, after_path: str
) -> RenderableType:
    """Return a table that fits 80 columns; a word has the meaning that colour repeats."""
    result_table = build_bare_table(
        Column("scenario", overflow="fold", ratio=1),
        Column("measure", no_wrap=True),
        *build_number_columns("before", "after", "p"),
        Column("told", no_wrap=True),
    )
    for cells in _list_rows(comparison):
        *plain_cells, outcome = cells
        style = _STYLES.get(
            outcome.partition(",")[0], "yellow" if outcome in (*OPEN, *FAIL_ON_BOTH) else ""
        )
        result_table.add_row(*(Text(cell) for cell in plain_cells), Text(outcome, style=style))
    lines: list[RenderableType] = [Text(f"before  {before_path}"), Text(f"after   {after_path}")]
    for name, (left, right) in comparison.differences.items():
        lines.append(Text(f"{name}: {left} → {right}", style="dim"))
    summary = Text(comparison.sentence, style="bold red" if comparison.regressions else "bold")
    return Group(
        *lines,
        Text(""),
        result_table,
        Text(""),
        *(Text(n) for n in _list_notes(comparison)),
        summary,
    )


def render_markdown(comparison: SuiteComparison, *, before_path: str, after_path: str) -> str:
    """Return the table in Markdown, for a pull request."""
    lines = [
        f"# {_select_sign(comparison)} {comparison.sentence}",
        "",
        f"before: {format_code(before_path)}, after: {format_code(after_path)}",
        "",
    ]
    if comparison.differences:
        rows = [
            (escape_markdown(n), escape_markdown(left), escape_markdown(right))
            for n, (left, right) in comparison.differences.items()
        ]
        lines += [*build_table_lines(("differs", "before", "after"), rows), ""]
    lines += build_table_lines(
        _HEAD, ([escape_markdown(cell) for cell in row] for row in _list_rows(comparison))
    )
    return fit_text(
        "\n".join([*lines, "", *(f"{note}  " for note in _list_notes(comparison))]) + "\n"
    )


def _select_sign(comparison: SuiteComparison) -> str:
    if comparison.regressions:
        return "❌"
    return "✅" if comparison.exit_code == 0 else "❔"


def render_json(comparison: SuiteComparison, *, before_path: str, after_path: str) -> str:
    """Return all figures, with the single values."""
    scenarios = [
        {
            "scenario": row.scenario,
            "verdict": row.outcome,
            "before": _describe_standing(row.before_runs),
            "after": _describe_standing(row.after_runs),
            "regression": row.is_regression,
            "measures": {
                change.measure.name: {
                    "unit": change.measure.unit,
                    "before": change.before_values,
                    "after": change.after_values,
                    "told": change.result,
                    "p_holm": change.p,
                    "least_p": change.lowest_p,
                    "cliffs_delta": change.delta,
                }
                for change in row.changes
            },
        }
        for row in comparison.scenarios
    ]
    suite = {
        "before": before_path,
        "after": after_path,
        "told": comparison.sentence,
        "exit_code": comparison.exit_code,
        "repeats_needed": comparison.repeats_needed,
        "differences": comparison.differences,
        "scenarios": scenarios,
    }
    return json.dumps(suite, indent=2, ensure_ascii=False) + "\n"


def _list_rows(comparison: SuiteComparison) -> Iterator[tuple[str, ...]]:
    for row in comparison.scenarios:
        yield (
            row.scenario,
            "verdict",
            _describe_standing(row.before_runs),
            _describe_standing(row.after_runs),
            "",
            row.outcome,
        )
        for change in row.changes:
            p = "-" if change.p is None else f"{change.p:.3f}"
            yield ("", change.measure.name, *_describe_medians(change), p, _describe_change(change))


def _describe_standing(runs: tuple[RunSummary, ...]) -> str:
    if not runs:
        return "-"
    if len(runs) == 1:
        return {"not_run": "not run", "undecided": "inconclusive"}.get(
            runs[0].standing, runs[0].standing
        )
    return f"{sum(run.standing == 'expected' for run in runs)} of {len(runs)}"


def _describe_medians(change: MeasureChange) -> tuple[str, str]:
    sides = zip(change.medians, (change.before_values, change.after_values), strict=True)
    unit = f" {change.measure.unit}" if change.measure.unit else ""
    left, right = (
        f"{middle:.3g}{unit}" + (f" (n={len(side)})" if len(side) > 1 else "")
        for middle, side in sides
    )
    return left, right


def _describe_change(change: MeasureChange) -> str:
    if change.result in ("worse", "better"):
        return f"{change.result}, d={change.delta:+.2f}"
    return change.result


def _list_notes(comparison: SuiteComparison) -> Iterator[str]:
    for row in comparison.scenarios:
        if any(run.headline == STALE for run in (*row.before_runs, *row.after_runs)):
            yield f"{row.scenario}: {STALE}."
    changes = [change for row in comparison.scenarios for change in row.changes]
    tested_count = sum(change.p is not None for change in changes)
    if tested_count:
        yield (
            f"p: Mann and Whitney's test, exact, corrected after Holm for {tested_count} "
            "tests; worse or "
            f"better where it is at most {ALPHA:g}. d: Cliff's delta. Figures are medians."
        )
    if any(change.result == "inconclusive" for change in changes):
        needed_repeats = comparison.repeats_needed
        yield (
            f"Too few repeats to tell a change from noise: {needed_repeats} on each side could "
            "show one in "
            f"any of {len(MEASURES)} measures of {plural(comparison.common_count, 'scenario')} "
            f"(`chaos run --repeat {needed_repeats}`)."
        )
