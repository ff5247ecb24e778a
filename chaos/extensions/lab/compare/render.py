"""The parts of a comparison, and all its figures as JSON."""

import json
from collections.abc import Iterator, Mapping

from chaos.extensions.lab.compare.comparison import (
    ALPHA,
    FAIL_ON_BOTH,
    MEASURES,
    OPEN,
    MeasureChange,
    SuiteComparison,
)
from chaos.model.summary import STALE, RunSummary
from chaos.report.outcome import Tone
from chaos.report.parts import (
    Cell,
    CellContent,
    Commands,
    Headline,
    LabelledLines,
    Paragraph,
    ReportLine,
    ReportPart,
    ResultTable,
    Section,
)
from chaos.wording import plural

_TONES: Mapping[str, Tone] = {
    "worse": "bad",
    "regression": "bad",
    "better": "good",
    "fixed": "good",
    **dict.fromkeys((*OPEN, *FAIL_ON_BOTH), "open"),
}


def list_parts(
    comparison: SuiteComparison, *, before_path: str, after_path: str
) -> tuple[ReportPart, ...]:
    """Return the answer, both sides with what differs, the measures, and notes."""
    tone: Tone = "good" if comparison.exit_code == 0 else "open"
    differences = [
        ReportLine("calm", name, f"{old_value} → {new_value}")
        for name, (old_value, new_value) in comparison.differences.items()
    ]
    measures = ResultTable(
        ("scenario", "measure", "before", "after", "p", "told"),
        [*_list_rows(comparison)],
        numbers=(2, 3, 4),
    )
    return (
        Headline("bad" if comparison.regressions else tone, comparison.sentence),
        Section(
            [
                Commands([("before", before_path), ("after", after_path)]),
                LabelledLines(differences),
            ]
        ),
        measures,
        Section([*map(Paragraph, _list_notes(comparison))]),
    )


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


def _list_rows(comparison: SuiteComparison) -> Iterator[tuple[CellContent, ...]]:
    for row in comparison.scenarios:
        yield (
            row.scenario,
            "verdict",
            _describe_standing(row.before_runs),
            _describe_standing(row.after_runs),
            "",
            _build_outcome_cell(row.outcome),
        )
        for change in row.changes:
            p = "-" if change.p is None else f"{change.p:.3f}"
            outcome = _build_outcome_cell(_describe_change(change))
            yield ("", change.measure.name, *_describe_medians(change), p, outcome)


def _build_outcome_cell(outcome: str) -> Cell:
    return Cell(outcome, _TONES.get(outcome) or _TONES.get(outcome.partition(",")[0]))


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
            f"Mann and Whitney's test, exact, p corrected after Holm for {tested_count} tests; "
            f"worse or better where p is at most {ALPHA:g}. d: Cliff's delta. Figures are medians."
        )
    if any(change.result == "inconclusive" for change in changes):
        needed_repeats = comparison.repeats_needed
        yield (
            f"Too few repeats to tell a change from noise: {needed_repeats} on each side could "
            "show one in "
            f"any of {len(MEASURES)} measures of {plural(comparison.common_count, 'scenario')} "
            f"(`chaos run --repeat {needed_repeats}`)."
        )
