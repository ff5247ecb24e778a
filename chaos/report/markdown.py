"""A run and a suite in Markdown: for a pull request, an issue, the summary of a CI step."""

from collections.abc import Iterator, Sequence

from chaos.check.goodput import build_ledger, get_ledger
from chaos.report import page
from chaos.report.markdown_parts import render_markdown_parts
from chaos.report.outcome import (
    FIGURES,
    STANDINGS,
    FinishedRun,
    ScenarioRuns,
    SuiteRow,
    find_row_tone,
    find_suite_tone,
    find_tone,
    group_scenarios,
)
from chaos.report.parts import (
    SIGNS,
    Commands,
    Figures,
    FindingPart,
    Headline,
    LabelledLines,
    Paragraph,
    ReportPart,
    ResultTable,
    Section,
)
from chaos.report.sections import (
    ListLimits,
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
    return render_markdown_parts(_list_run_parts(run))


def _list_run_parts(run: FinishedRun) -> Iterator[ReportPart]:
    verdict = run.verdict
    yield Headline(
        find_tone(verdict),
        describe_verdict(verdict),
        subject=run.plan.scenario,
        reason=verdict.headline,
        notes=[] if verdict.as_expected else [verdict.expectation],
    )
    yield Figures([*page.build_facts(run).items()])
    yield _build_ops(run)
    for section in build_sections(verdict, BREVITY):
        title = capitalize_first(section.title) or "What was found"
        yield Section([LabelledLines(section.lines)], title=title)
    yield from _list_goodput(run)
    command = ("replay", build_replay_command(run.directory))
    yield Section([Commands([command])], title="Again")


def render_suite_markdown(rows: Sequence[SuiteRow], *, title: str = "chaos") -> str:
    """Return a suite: a line per scenario, and the reason for each unexpected verdict.

    A scenario with repeats has the gravest verdict, the number that passed, and medians.
    """
    return render_markdown_parts(_list_suite_parts(rows, title))


def _list_suite_parts(rows: Sequence[SuiteRow], title: str) -> Iterator[ReportPart]:
    groups = group_scenarios(rows)
    yield Headline(find_suite_tone(rows), describe_suite(groups), subject=title)
    passed_column = ("passed",) if any(runs.has_repeats for runs in groups) else ()
    figures = (*passed_column, *FIGURES)
    cells = [_build_cells(runs, figures) for runs in groups]
    yield ResultTable(("scenario", "verdict", *figures), cells, range(2, 2 + len(figures)))
    unexpected_rows = [row for row in rows if row.standing != "expected"]
    for row in unexpected_rows[:REASONS_SHOWN]:
        number = "" if row.repeat is None else f", run {row.repeat}"
        commands = [("replay", build_replay_command(row.directory))] if row.directory else []
        yield FindingPart(_mark_scenario(row) + number, row.headline, [Commands(commands)])
    if len(unexpected_rows) > REASONS_SHOWN:
        yield Paragraph(describe_omitted(len(unexpected_rows) - REASONS_SHOWN))


def _build_cells(runs: ScenarioRuns, names: Sequence[str]) -> tuple[str, ...]:
    row, figures = runs.worst_row, runs.figures
    word = describe_verdict(row.verdict) if row.verdict else STANDINGS[row.standing].word
    return (_mark_scenario(row), word, *(figures[name] for name in names))


def _mark_scenario(row: SuiteRow) -> str:
    sign = SKIPPED if row.standing == "skipped" else SIGNS[find_row_tone(row)].emoji
    return f"{sign} {row.scenario}"


def _build_ops(run: FinishedRun) -> Section:
    rows = [
        (
            *(str(op.index), op.place, op.fault, op.target, op.status, op.detail),
            ", ".join(map(str, op.events)),
        )
        for op in page.build_op_rows(run)
    ]
    columns = ("op", "place", "fault", "target", "status", "what was seen", "events")
    nothing = Paragraph("nothing: this plan has no fault")
    parts: list[ReportPart] = [ResultTable(columns, rows) if rows else nothing]
    return Section(parts, title="What was done to the job")


def _list_goodput(run: FinishedRun) -> Iterator[Section]:
    from chaos.report.goodput import build_goodput_rows, describe_goodput  # noqa: PLC0415 - few need it

    run_ledger = get_ledger(run.analysis)
    if not run_ledger.wall_ns:
        return
    baseline_ledger = build_ledger(run.analysis.reference) if run.analysis.reference else None
    rows = build_goodput_rows(run_ledger, baseline_ledger, (), run.analysis.launcher_words)
    cells = [(row.phase, row.seconds, row.share, row.baseline or "-", row.meaning) for row in rows]
    columns = ("phase", "this run", "share", "baseline", "what it is")
    sentence = Paragraph(describe_goodput(run_ledger, baseline_ledger))
    yield Section([sentence, ResultTable(columns, cells, range(1, 4))], title="Goodput")
