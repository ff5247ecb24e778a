"""Verdicts in a terminal: a table that fits 80 columns, and a few lines for what went wrong."""

import io
import shlex
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from chaos.model.diagnosis import Resume
from chaos.model.verdict import CheckResult, Standing, Verdict
from chaos.report.live import Progress, advance_all
from chaos.report.outcome import (
    FinishedRun,
    Runs,
    SuiteRow,
    by_scenario,
    known,
    standing,
)
from chaos.report.screen import bare_table, labelled, numbers, screen
from chaos.report.sections import by_reason, in_words, lost, no_resume
from chaos.words import plural

ANOMALIES_SHOWN = 5
EVENTS_SHOWN = 8
PARTS_SHOWN = 12
WIDE = 10_000  # columns of a log, whose lines are not broken

_STYLES: dict[Standing, str] = {
    "expected": "green",
    "unexpected": "bold red",
    "undecided": "yellow",
    "not_run": "magenta",
    "skipped": "blue",
}
_MARKS: dict[Standing, str] = {
    "expected": "✓",
    "unexpected": "✗",
    "undecided": "?",
    "not_run": "!",
    "skipped": "-",
}


def verdict_table(rows: Sequence[SuiteRow]) -> Table:
    """Return one line per scenario; a mark and a word, so that colour only repeats them.

    A scenario with repeats has the gravest verdict, the number that passed, and medians.
    """
    groups = by_scenario(rows)
    has_repeats = any(runs.are_repeats for runs in groups)
    table = bare_table(
        Column("scenario", overflow="fold", ratio=1),
        Column("verdict", no_wrap=True),
        *numbers("passed" if has_repeats else "attempts", "lost steps", "recovery", "time"),
    )
    for runs in groups:
        table.add_row(
            Text(runs.worst.scenario),
            _verdict(runs.worst),
            _tally(runs) if has_repeats else known(runs.middle(lambda row: row.attempts), "{}"),
            known(runs.middle(lambda row: row.lost_steps), "{}"),
            known(runs.middle(lambda row: row.recovery_s), "{:.1f} s"),
            known(runs.middle(lambda row: row.duration_s), "{:.1f} s"),
        )
    return table


def findings(rows: Sequence[SuiteRow]) -> Iterator[RenderableType]:
    """Explain each scenario of a suite with an unexpected verdict, in the suite's order.

    Of repeats the gravest is explained, and the others are a line each. Notes on the
    jobs follow, each note once.
    """
    for runs in by_scenario(rows):
        worst = runs.worst
        if worst.verdict is not None and worst.standing != "expected":
            yield explain(worst.verdict, worst.scenario, directory=f"{worst.directory}")
        for row in runs.rows:
            if row is not worst and row.standing != "expected":
                yield Text(f"{_MARKS[row.standing]} run {row.repeat}: {row.why}")
                yield Text(f"  {row.directory}", style="dim")
    noted: dict[str, list[str]] = {}
    for row in rows:
        for note in () if row.verdict is None else row.verdict.notes:
            noted.setdefault(note, []).append(row.scenario)
    for note, scenarios in noted.items():
        more = f" and {len(scenarios) - 1} more" if len(scenarios) > 1 else ""
        yield Text.assemble(("note: ", "yellow"), note, (f" ({scenarios[0]}{more})", "dim"))


def explain(verdict: Verdict, scenario: str, *, directory: str) -> Group:
    """Return the reasons why a run did not pass; `directory` is its folder.

    The words of the headline are not repeated.
    """
    mark = "?" if verdict.status == "inconclusive" else _MARKS[standing(verdict)]
    lines = [Text.assemble((f"{mark} {in_words(verdict)}", _style(verdict)), f" · {scenario}")]
    lines.append(Text(f"  {verdict.headline}", style="bold"))
    if not verdict.as_expected:
        lines.append(Text(f"  {verdict.expectation}"))
    for result in verdict.broken:
        lines += _finding(result, verdict.headline.lower())
    lines += _open_for_one_reason(verdict)
    for resume in verdict.diagnosis:
        lines += _not_back(resume)
    for name, value in (
        ("report", f"{directory}/report.html"),
        ("replay", f"chaos replay {shlex.quote(directory)}"),
    ):
        lines.append(Text(f"  {name}  {value}", no_wrap=True))
    return Group(*lines)


def print_suite(rows: Sequence[SuiteRow], console: Console) -> None:
    """Print the results of a suite.

    A command or a path is never broken; without a terminal, no line is.
    """
    is_log = not console.is_terminal
    for each in ("", *findings(rows)):
        parts = each.renderables if isinstance(each, Group) else [each]
        for part in parts:
            console.print(part, soft_wrap=is_log or bool(getattr(part, "no_wrap", False)))
    print_whole(verdict_table(rows), console)
    console.print(closing_line(rows))


def print_whole(table: Table, console: Console) -> None:
    """Print a table; without a terminal no cell of it is broken, so that paths can be copied."""
    if console.is_terminal:
        console.print(table)
    else:
        console.print(Text(plain_text(table, width=WIDE)), soft_wrap=True)


def row_line(row: SuiteRow) -> Text:
    """Return the line of one run as it ends, if several go on at once."""
    return Text.assemble(_verdict(row), f"  {row.scenario}  {row.duration_s:.1f} s")


def closing_line(rows: Sequence[SuiteRow]) -> Text:
    """Count a suite's scenarios by their standing, and those as expected only in some repeats."""
    groups = by_scenario(rows)
    words: dict[Standing, str] = {
        "expected": "as expected",
        "unexpected": "not as expected",
        "undecided": "inconclusive",
        "not_run": "could not run",
        "skipped": "skipped",
    }
    parts = [
        (f"{_MARKS[kind]} {count} {word}", _STYLES[kind])
        for kind, word in words.items()
        if (count := sum(runs.worst.standing == kind for runs in groups))
    ]
    if flaky := sum(runs.is_flaky for runs in groups):
        parts.append((f"{flaky} flaky", "yellow"))
    return Text("   ").join(Text(text, style=style) for text, style in parts)


def _finding(result: CheckResult, said: str) -> list[Text]:
    style = "red" if result.status == "fail" else "yellow"
    lines = []
    for anomaly in result.anomalies[:ANOMALIES_SHOWN]:
        shown = ", ".join(str(number) for number in anomaly.events[:EVENTS_SHOWN])
        more = ", …" if len(anomaly.events) > EVENTS_SHOWN else ""
        where = f"  [events {shown}{more}]" if shown else ""
        what = "" if anomaly.message.lower() in said else f": {anomaly.message}"
        lines.append(Text.assemble("  · ", (result.check, style), what, (where, "dim")))
    hidden = len(result.anomalies) - ANOMALIES_SHOWN
    if hidden > 0:
        lines.append(Text(f"  · {result.check}: and {hidden} more, in the report", style="dim"))
    return lines or [Text.assemble("  · ", (result.check, style), f": {result.summary}")]


def _open_for_one_reason(verdict: Verdict) -> list[Text]:
    """Return the inconclusive checks, on a line for each reason."""
    said = verdict.headline.lower()
    return [
        Text.assemble(
            ("  inconclusive: ", "yellow"),
            ", ".join(checks),
            "" if summary.lower() in said else f"  {summary}",
        )
        for summary, checks in by_reason(verdict.undecided).items()
    ]


def _not_back(resume: Resume) -> list[Text]:
    """Return the parts of the state that a resume lost, on a line for each."""
    gone = lost(resume)
    if not gone:
        return []
    head = Text(f"  not restored in attempt {resume.attempt}, epoch {resume.epoch}:", style="bold")
    return [
        head,
        *(Text(f"    · {row.component} {row.standing} {row.found}") for row in gone[:PARTS_SHOWN]),
    ]


def _style(verdict: Verdict) -> str:
    # An expected inconclusive run is still not green: no promise was shown to hold.
    return "yellow" if verdict.status == "inconclusive" else _STYLES[standing(verdict)]


def _verdict(row: SuiteRow) -> Text:
    if row.verdict is None:
        return Text(f"{_MARKS[row.standing]} {row.word}", style=_STYLES[row.standing])
    mark = "?" if row.verdict.status == "inconclusive" else _MARKS[row.standing]
    tail = _tail(row.verdict)
    return Text.assemble((f"{mark} {row.verdict.status}", _style(row.verdict)), tail)


def _tally(runs: Runs) -> Text:
    return Text(runs.tally, style="yellow" if runs.is_flaky else "")


def _tail(verdict: Verdict) -> str:
    if verdict.is_news:
        return ": fixed?"
    if verdict.status == "pass":
        return no_resume(verdict) if verdict.as_expected else ", unexpected"
    return ", expected" if verdict.as_expected else ""


# -- in brief -----------------------------------------------------------------------------------

ANOMALIES_IN_BRIEF = 3
PARTS_IN_BRIEF = 8
AS_ABOVE = "as said above"


def explanation(run: FinishedRun, *, page: str) -> RenderableType:
    """Return the verdict, the broken promises, the lost state, and the next commands.

    The words of the headline are not repeated.
    """
    verdict = run.verdict
    parts: list[RenderableType] = [Text(verdict.expectation, style="bold"), _in(verdict.headline)]
    rows = [*_broken(verdict), *_undecided(verdict), *(("note", note) for note in verdict.notes)]
    if rows:
        parts += [Text(""), _table(rows)]
    for resume in verdict.diagnosis:
        parts += _parts_not_back(resume)
    ways = [("report", page), ("replay", f"chaos replay {run.directory}")]
    return Group(*parts, Text(""), _table(ways))


def broken_off(run: FinishedRun, why: str, *, page: str) -> RenderableType:
    """Return the progress of a run that was ended from outside, and the promises broken by then.

    Inconclusive checks are not listed: nearly all are.
    """
    parts: list[RenderableType] = [Text(why, style="bold"), _in(_how_far(run))]
    if run.verdict.broken:
        parts += [Text(""), _table(_broken(run.verdict))]
    return Group(*parts, Text(""), _table([("report", page)]))


def _how_far(run: FinishedRun) -> str:
    reached = advance_all(Progress(), run.history)
    alone = "" if run.plan.ops else "the job was running without faults, to be compared with; "
    if reached.place is None or reached.attempt is None:
        return f"{alone}training had not begun".capitalize()
    epoch, step = reached.place
    landed = f"; {plural(len(reached.faults), 'fault')} had been injected" if reached.faults else ""
    where = f"training stood at epoch {epoch}, step {step} of attempt {reached.attempt}"
    return f"{alone}{where}, after {reached.elapsed_s:.1f} s{landed}".capitalize()


def plain_text(words: RenderableType, *, width: int) -> str:
    """Return text without colours, wrapped."""
    page = io.StringIO()
    screen(file=page, width=width, color_system=None).print(words)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())


def _broken(verdict: Verdict) -> Iterator[tuple[str, str]]:
    for result in verdict.broken:
        yield from zip(_first(result.check), _anomalies(result, verdict.headline), strict=False)


def _anomalies(result: CheckResult, headline: str) -> list[str]:
    said = headline.lower()
    messages = [anomaly.message for anomaly in result.anomalies]
    fresh = [message for message in messages if message.lower() not in said]
    shown, more = fresh[:ANOMALIES_IN_BRIEF], len(fresh) - ANOMALIES_IN_BRIEF
    return [*shown, *([f"and {more} more, in the report"] if more > 0 else [])] or [AS_ABOVE]


def _undecided(verdict: Verdict) -> Iterator[tuple[str, str]]:
    said = verdict.headline.lower()
    told = (
        f"{', '.join(checks)}: {AS_ABOVE if why.lower() in said else why}"
        for why, checks in by_reason(verdict.undecided).items()
    )
    yield from zip(_first("inconclusive"), told, strict=False)


def _parts_not_back(resume: Resume) -> list[RenderableType]:
    gone = lost(resume)[:PARTS_IN_BRIEF]
    if not gone:
        return []
    head = Text(f"not back in attempt {resume.attempt}, at epoch {resume.epoch}")
    rows = [(row.component, f"{row.standing} {row.found}") for row in gone]
    return [Text(""), Padding(head, (0, 0, 0, 2)), Padding(_table(rows), (0, 0, 0, 2))]


def _first(word: str) -> Iterator[str]:
    yield word
    while True:
        yield ""


def _table(rows: Iterable[tuple[str, str]]) -> RenderableType:
    return _in(labelled((name, "bold", what) for name, what in rows))


def _in(words: RenderableType) -> Padding:
    return Padding(Text(words) if isinstance(words, str) else words, (0, 0, 0, 2))
