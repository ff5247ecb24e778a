"""Verdicts in a terminal: a table that fits 80 columns, and a few lines for what went wrong."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from chaos.model.verdict import Verdict
from chaos.report.live import Progress, advance_all
from chaos.report.outcome import (
    STANDINGS,
    FinishedRun,
    StandingStyle,
    SuiteRow,
    find_standing,
    group_scenarios,
)
from chaos.report.parts import (
    Cell,
    CellContent,
    Commands,
    Headline,
    LabelledLines,
    Paragraph,
    ReportPart,
    ResultTable,
    Section,
    Sign,
)
from chaos.report.screen import render_plain
from chaos.report.sections import (
    ListLimits,
    build_sections,
    describe_verdict,
    list_broken_promises,
    list_next_steps,
)
from chaos.report.terminal_parts import render_cell, render_parts
from chaos.wording import plural

IN_A_SUITE = ListLimits(anomalies=5, events=8, state_parts=12, notes=False)
BELOW_A_TEST = ListLimits(anomalies=3, events=0, state_parts=8)


def build_verdict_table(rows: Sequence[SuiteRow]) -> Group:
    """Return one line per scenario; a mark and a word, so that colour only repeats them.

    A scenario with repeats has the gravest verdict, the number that passed, and medians.
    """
    groups = group_scenarios(rows)
    has_repeats = any(runs.has_repeats for runs in groups)
    names = ("passed" if has_repeats else "attempts", "lost steps", "recovery", "time")
    cells: list[Sequence[CellContent]] = [
        (
            runs.worst_row.scenario,
            _build_verdict_cells(runs.worst_row),
            Cell(runs.figures[names[0]], "open" if has_repeats and runs.is_flaky else None),
            *(runs.figures[name] for name in names[1:]),
        )
        for runs in groups
    ]
    table = ResultTable(("scenario", "verdict", *names), cells, numbers=range(2, 6))
    return Group(*render_parts([table]))


def explain_findings(rows: Sequence[SuiteRow]) -> Iterator[RenderableType]:
    """Explain each scenario of a suite with an unexpected verdict, in the suite's order.

    Of repeats the gravest is explained, and the others are a line each. Notes on the
    jobs follow, each note once.
    """
    for runs in group_scenarios(rows):
        worst_row = runs.worst_row
        if worst_row.verdict is not None and worst_row.standing != "expected":
            yield explain_verdict(
                worst_row.verdict, worst_row.scenario, directory=f"{worst_row.directory}"
            )
        for row in runs.rows:
            if row is not worst_row and row.standing != "expected":
                yield Text(f"{STANDINGS[row.standing].mark} run {row.repeat}: {row.headline}")
                yield Text(f"  {row.directory}", style="dim")
    scenarios_by_note: dict[str, list[str]] = {}
    for row in rows:
        for note in () if row.verdict is None else row.verdict.notes:
            scenarios_by_note.setdefault(note, []).append(row.scenario)
    for note, scenarios in scenarios_by_note.items():
        other_count = f" and {len(scenarios) - 1} more" if len(scenarios) > 1 else ""
        yield Text.assemble(("note: ", "yellow"), note, (f" ({scenarios[0]}{other_count})", "dim"))


def explain_verdict(verdict: Verdict, scenario: str, *, directory: str) -> Group:
    """Return the reasons why a run did not pass; `directory` is its folder."""
    look = _find_look(verdict)
    headline = Headline(
        look.tone,
        describe_verdict(verdict),
        subject=scenario,
        notes=[verdict.headline, *([] if verdict.as_expected else [verdict.expectation])],
        special_sign=Sign(look.mark, look.style, ""),
    )
    return Group(*render_parts([headline, *_list_details(verdict, IN_A_SUITE, directory)]))


def build_explanation(run: FinishedRun) -> Group:
    """Return the verdict, the broken promises, the lost state, and the next commands."""
    verdict = run.verdict
    head = Section([Paragraph(verdict.expectation, "strong"), Paragraph(verdict.headline)])
    return Group(*render_parts([head, *_list_details(verdict, BELOW_A_TEST, run.directory)]))


def describe_interrupted_run(run: FinishedRun, reason: str) -> Group:
    """Return the progress of a run that was ended from outside, and the promises broken by then.

    Inconclusive checks are not listed: nearly all are.
    """
    head = Section([Paragraph(reason, "strong"), Paragraph(_describe_progress(run))])
    lines = LabelledLines(list_broken_promises(run.verdict, BELOW_A_TEST, shown_text=reason))
    page = Commands(list_next_steps(run.directory)[:1])
    return Group(*render_parts([head, lines, page]))


def _list_details(verdict: Verdict, brevity: ListLimits, directory: str) -> Iterator[ReportPart]:
    """Yield what stands below the headline: the sections, and the ways on."""
    for section in build_sections(verdict, brevity):
        yield Section([LabelledLines(section.lines)], title=section.title)
    yield Commands(list_next_steps(directory, verdict))


def _describe_progress(run: FinishedRun) -> str:
    progress = advance_all(Progress(), run.history)
    baseline_note = (
        "" if run.plan.ops else "the job was running without faults, to be compared with; "
    )
    if progress.foremost_place is None or progress.attempt is None:
        return f"{baseline_note}training had not begun".capitalize()
    epoch, step = progress.foremost_place
    faults_note = (
        f"; {plural(len(progress.faults), 'fault')} had been injected" if progress.faults else ""
    )
    place_text = f"training stood at epoch {epoch}, step {step} of attempt {progress.attempt}"
    return (
        f"{baseline_note}{place_text}, after {progress.elapsed_s:.1f} s{faults_note}".capitalize()
    )


def render_plain_text(words: RenderableType, *, width: int) -> str:
    """Return text without colours, wrapped but for what is never broken."""
    return render_plain(lambda console: console.print(words, crop=False), width=width)


def print_suite(rows: Sequence[SuiteRow], console: Console) -> None:
    """Print the results of a suite.

    A command or a path is never broken.
    """
    for block in ("", *explain_findings(rows)):
        parts = block.renderables if isinstance(block, Group) else [block]
        for part in parts:
            console.print(part, soft_wrap=bool(getattr(part, "no_wrap", False)))
    console.print(build_verdict_table(rows))
    console.print(build_closing_line(rows))


def build_row_line(row: SuiteRow) -> Text:
    """Return the line of one run as it ends, if several go on at once."""
    verdict = render_cell(_build_verdict_cells(row))
    return Text.assemble(verdict, f"  {row.scenario}  {row.duration_s:.1f} s")


def build_closing_line(rows: Sequence[SuiteRow]) -> Text:
    """Count a suite's scenarios by their standing, and those as expected only in some repeats."""
    groups = group_scenarios(rows)
    counts = Counter(runs.worst_row.standing for runs in groups)
    parts = [
        (f"{look.mark} {counts[kind]} {look.word}", look.style)
        for kind, look in STANDINGS.items()
        if counts[kind]
    ]
    if flaky := sum(runs.is_flaky for runs in groups):
        parts.append((f"{flaky} flaky", "yellow"))
    return Text("   ").join(Text(text, style=style) for text, style in parts)


def _find_look(verdict: Verdict) -> StandingStyle:
    # An expected inconclusive run is still not green: no promise was shown to hold.
    return STANDINGS["undecided" if verdict.status == "inconclusive" else find_standing(verdict)]


def _build_verdict_cells(row: SuiteRow) -> Sequence[Cell]:
    """Return the mark and the status, in colour, and whether they were expected."""
    if row.verdict is None:
        look = STANDINGS[row.standing]
        return [Cell(f"{look.mark} {look.word}", look.tone)]
    status, look = row.verdict.status, _find_look(row.verdict)
    expectation = describe_verdict(row.verdict, brief=True).removeprefix(status)
    return Cell(f"{look.mark} {status}", look.tone), Cell(expectation)
