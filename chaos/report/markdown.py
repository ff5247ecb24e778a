"""A run and a suite in Markdown: for a pull request, an issue, the summary of a CI step."""

import re
from collections.abc import Iterable, Sequence

from chaos.check.goodput import build_ledger, get_ledger
from chaos.check.headline import format_sentence
from chaos.report import page
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
from chaos.report.screen import join_lines
from chaos.report.sections import (
    ListLimits,
    ReportLine,
    ReportSection,
    build_replay_command,
    build_sections,
    describe_suite,
    describe_verdict,
)
from chaos.wording import capitalize_first, describe_omitted

LIMIT_BYTES = 1_000_000  # GitHub refuses a step summary of more than 1 MiB
BREVITY = ListLimits(anomalies=10, events=10, state_parts=20)
REASONS_SHOWN = 50
SIGNS = {"good": "✅", "bad": "❌", "open": "❔", "calm": "☑️"}
SKIPPED = "⏭️"
_ACTIVE = re.compile(r"([\\`*_\[\]<>|~])|^(:)(?=:)")  # the last one: a command to GitHub


def render_run_markdown(run: FinishedRun) -> str:
    """Return one run: verdict, proof of the fault's effect, findings, time by phase."""
    verdict, facts = run.verdict, page.build_facts(run)
    lines = [
        (
            f"# {SIGNS[find_tone(verdict)]} {describe_verdict(verdict)}: "
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
    lines += [*build_table_lines(headings, cells, numbers_start=2), ""]
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


def build_table_lines(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, numbers_start: int | None = None
) -> list[str]:
    """Return the lines of a table; the columns from `numbers_start` on are aligned right."""
    first_number_column = len(headings) if numbers_start is None else numbers_start
    rule = ["---" if column < first_number_column else "---:" for column in range(len(headings))]
    return ["| " + " | ".join(cells) + " |" for cells in (headings, rule, *rows)]


def escape_markdown(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    return _ACTIVE.sub(r"\\\1\2", join_lines(text))


def format_code(text: str) -> str:
    """Return a command or a path as Markdown shows it in one line of code."""
    words = join_lines(text)
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", words)), default=0))
    return f"{ticks}{words}{ticks}" if ticks == "`" else f"{ticks} {words} {ticks}"


def fit_text(text: str, *, limit: int = LIMIT_BYTES) -> str:
    """Return a text of at most `limit` bytes, cut at a line, with a note if it was cut."""
    if len(text.encode()) <= limit:
        return text
    tail = "\n\n(cut here: the rest is in the report)\n"
    cut_text = text.encode()[: limit - len(tail.encode())].decode(errors="ignore")
    return cut_text.rpartition("\n")[0] + tail


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


def format_bullet(line: ReportLine) -> str:
    """Return a line as an item of a list."""
    label = f"**{escape_markdown(line.label)}**: " if line.label else ""
    return f"- {label}{escape_markdown(line.text)}" + (f" ({line.events})" if line.events else "")


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
    return SKIPPED if row.standing == "skipped" else SIGNS[find_row_tone(row)]
