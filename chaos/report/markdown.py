"""A run and a suite in Markdown: for a pull request, an issue, the summary of a CI step."""

from collections.abc import Sequence

from chaos.check.goodput import build_ledger, get_ledger
from chaos.check.headline import format_sentence
from chaos.report import page
from chaos.report.markdown_parts import (
    build_table_lines,
    escape_markdown,
    fit_text,
    format_bullet,
    format_code,
)
from chaos.report.outcome import (
    FIGURES,
    STANDINGS,
    FinishedRun,
    ScenarioRuns,
    SuiteRow,
    find_row_tone,
    find_tone,
    group_scenarios,
)
from chaos.report.parts import SIGNS
from chaos.report.sections import (
    ListLimits,
    ReportSection,
    build_replay_command,
    build_sections,
    describe_suite,
    describe_verdict,
)
from chaos.wording import capitalize_first, describe_omitted

BREVITY = ListLimits(anomalies=10, events=10, state_parts=20)
REASONS_SHOWN = 50
SKIPPED = "⏭️"


def render_run_markdown(run: FinishedRun) -> str:
    """Return one run: verdict, proof of the fault's effect, findings, time by phase."""
    verdict, facts = run.verdict, page.build_facts(run)
    lines = [
        (
            f"# {SIGNS[find_tone(verdict)].emoji} {describe_verdict(verdict)}: "
            f"{escape_markdown(run.plan.scenario)}"
        ),
        "",
        escape_markdown(verdict.headline),
    ]
    if not verdict.as_expected:
        lines += ["", escape_markdown(format_sentence(verdict.expectation))]
    lines += [
        "",
        *build_table_lines([*facts], [[escape_markdown(value) for value in facts.values()]]),
        "",
    ]
    lines += _render_ops(run)
    for section in build_sections(verdict, BREVITY):
        lines += _render_section(section)
    lines += _render_goodput(run)
    lines += ["## Again", "", format_code(build_replay_command(run.directory)), ""]
    return fit_text("\n".join(lines))


def render_suite_markdown(rows: Sequence[SuiteRow], *, title: str = "chaos") -> str:
    """Return a suite: a line per scenario, and the reason for each unexpected verdict.

    A scenario with repeats has the gravest verdict, the number that passed, and medians.
    """
    groups = group_scenarios(rows)
    passed_column = ("passed",) if any(runs.has_repeats for runs in groups) else ()
    headings = ("scenario", "verdict", *passed_column, *FIGURES)
    cells = [_build_cells(runs, headings[2:]) for runs in groups]
    lines = [f"# {title}: {describe_suite(groups)}", ""]
    lines += [*build_table_lines(headings, cells, numbers=range(2, len(headings))), ""]
    unexpected_rows = [row for row in rows if row.standing != "expected"]
    for row in unexpected_rows[:REASONS_SHOWN]:
        number = "" if row.repeat is None else f", run {row.repeat}"
        lines += [f"### {_select_sign(row)} {escape_markdown(row.scenario)}{number}", ""]
        lines += [escape_markdown(row.headline), ""]
        if row.directory:
            lines += [format_code(build_replay_command(row.directory)), ""]
    if len(unexpected_rows) > REASONS_SHOWN:
        lines += [describe_omitted(len(unexpected_rows) - REASONS_SHOWN), ""]
    return fit_text("\n".join(lines))


def _build_cells(runs: ScenarioRuns, names: Sequence[str]) -> tuple[str, ...]:
    worst_row, figures = runs.worst_row, runs.figures
    return (
        f"{_select_sign(worst_row)} {escape_markdown(worst_row.scenario)}",
        escape_markdown(
            describe_verdict(worst_row.verdict)
            if worst_row.verdict
            else STANDINGS[worst_row.standing].word
        ),
        *(figures[name] for name in names),
    )


def _render_ops(run: FinishedRun) -> list[str]:
    ops = page.build_op_rows(run)
    if not ops:
        return ["## What was done to the job", "", "Nothing: this plan has no fault.", ""]
    cells = [
        (
            str(op.index),
            *(
                escape_markdown(text)
                for text in (op.place, op.fault, op.target, op.status, op.detail)
            ),
            ", ".join(str(number) for number in op.events),
        )
        for op in ops
    ]
    head = ("op", "place", "fault", "target", "status", "what was seen", "events")
    return ["## What was done to the job", "", *build_table_lines(head, cells), ""]


def _render_section(section: ReportSection) -> list[str]:
    title = escape_markdown(capitalize_first(section.title) or "What was found")
    return [f"## {title}", "", *map(format_bullet, section.lines), ""]


def _render_goodput(run: FinishedRun) -> list[str]:
    from chaos.report.goodput import build_goodput_rows, describe_goodput  # noqa: PLC0415 - it draws, as a page

    run_ledger = get_ledger(run.analysis)
    if not run_ledger.wall_ns:
        return []
    baseline_ledger = build_ledger(run.analysis.reference) if run.analysis.reference else None
    rows = build_goodput_rows(run_ledger, baseline_ledger, (), run.analysis.launcher_words)
    cells = [(row.phase, row.seconds, row.share, row.baseline or "-", row.meaning) for row in rows]
    head = ("phase", "this run", "share", "baseline", "what it is")
    return [
        "## Goodput",
        "",
        describe_goodput(run_ledger, baseline_ledger),
        "",
        *build_table_lines(head, cells),
        "",
    ]


def _select_sign(row: SuiteRow) -> str:
    return SKIPPED if row.standing == "skipped" else SIGNS[find_row_tone(row)].emoji
