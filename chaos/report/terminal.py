"""Verdicts in a terminal: a table that fits 80 columns, and a few lines for what went wrong."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from chaos.model.verdict import Verdict
from chaos.report.live import Progress, advance_all
from chaos.report.outcome import (
    STANDINGS,
    FinishedRun,
    StandingStyle,
    SuiteRow,
    Tone,
    find_standing,
    group_scenarios,
)
from chaos.report.parts import ReportLine
from chaos.report.screen import (
    build_bare_table,
    build_labelled_table,
    build_number_columns,
    render_plain,
)
from chaos.report.sections import (
    ListLimits,
    build_sections,
    describe_verdict,
    list_broken_promises,
    list_next_steps,
)
from chaos.wording import plural

IN_A_SUITE = ListLimits(anomalies=5, events=8, state_parts=12, notes=False)
BELOW_A_TEST = ListLimits(anomalies=3, events=0, state_parts=8)

_INKS: dict[Tone, str] = {"bad": "red", "open": "yellow", "calm": "bold"}


def build_verdict_table(rows: Sequence[SuiteRow]) -> Table:
    """Return one line per scenario; a mark and a word, so that colour only repeats them.

    A scenario with repeats has the gravest verdict, the number that passed, and medians.
    """
    groups = group_scenarios(rows)
    has_repeats = any(runs.has_repeats for runs in groups)
    names = ("passed" if has_repeats else "attempts", "lost steps", "recovery", "time")
    table = build_bare_table(
        Column("scenario", overflow="fold", ratio=1),
        Column("verdict", no_wrap=True),
        *build_number_columns(*names),
    )
    for runs in groups:
        figures = runs.figures
        style = "yellow" if has_repeats and runs.is_flaky else ""
        first_cell, *other_cells = (Text(figures[name]) for name in names)
        first_cell.style = style
        table.add_row(
            Text(runs.worst_row.scenario),
            _describe_verdict(runs.worst_row),
            first_cell,
            *other_cells,
        )
    return table


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
    word = Text(f"{look.mark} {describe_verdict(verdict)}", style=look.style)
    parts: list[RenderableType] = [
        Text.assemble(word, f" · {scenario}"),
        _indent_text(verdict.headline),
    ]
    if not verdict.as_expected:
        parts.append(_indent_text(verdict.expectation))
    return Group(*parts, *_list_details(verdict, IN_A_SUITE, directory))


def build_explanation(run: FinishedRun) -> Group:
    """Return the verdict, the broken promises, the lost state, and the next commands."""
    verdict = run.verdict
    details = _list_details(verdict, BELOW_A_TEST, run.directory)
    return Group(Text(verdict.expectation, style="bold"), _indent_text(verdict.headline), *details)


def describe_interrupted_run(run: FinishedRun, reason: str) -> Group:
    """Return the progress of a run that was ended from outside, and the promises broken by then.

    Inconclusive checks are not listed: nearly all are.
    """
    lines = list_broken_promises(run.verdict, BELOW_A_TEST, shown_text=reason)
    blocks: list[RenderableType] = [Text(""), _build_columns(lines)] if lines else []
    (page, *_) = _format_next_steps(run.directory)
    return Group(
        Text(reason, style="bold"), _indent_text(_describe_progress(run)), *blocks, Text(""), page
    )


def _list_details(
    verdict: Verdict, brevity: ListLimits, directory: str
) -> Iterator[RenderableType]:
    """Yield what stands below the headline: the sections, and the ways on."""
    for section in build_sections(verdict, brevity):
        yield Text("")
        if section.title:
            yield _indent_text(section.title)
        yield _build_columns(section.lines, indent=4 if section.title else 2)
    yield Text("")
    yield from _format_next_steps(directory, verdict)


def _format_next_steps(directory: str, verdict: Verdict | None = None) -> list[Text]:
    """Return a path and commands, which are never broken, so that they can be copied."""
    return [
        Text.assemble((f"  {name}  ", "bold"), value, no_wrap=True, overflow="ignore")
        for name, value in list_next_steps(directory, verdict)
    ]


def _build_columns(lines: Sequence[ReportLine], indent: int = 2) -> Padding:
    return Padding(build_labelled_table(omit_repeated_labels(lines, _INKS)), (0, 0, 0, indent))


def omit_repeated_labels(
    lines: Iterable[ReportLine], inks: Mapping[Tone, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield the label, its style and the text of each line; of equal labels only the first."""
    previous_label = None
    for line in lines:
        label = "" if line.label == previous_label else line.label
        events = f"  [{line.events}]" if line.events else ""
        yield label, inks[line.tone], f"{line.text}{events}"
        previous_label = line.label


def _indent_text(words: str) -> Padding:
    return Padding(Text(words), (0, 0, 0, 2))


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
    return Text.assemble(_describe_verdict(row), f"  {row.scenario}  {row.duration_s:.1f} s")


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


def _describe_verdict(row: SuiteRow) -> Text:
    if row.verdict is None:
        look = STANDINGS[row.standing]
        return Text(f"{look.mark} {look.word}", style=look.style)
    status, words, look = (
        row.verdict.status,
        describe_verdict(row.verdict, brief=True),
        _find_look(row.verdict),
    )
    return Text.assemble((f"{look.mark} {status}", look.style), words.removeprefix(status))
