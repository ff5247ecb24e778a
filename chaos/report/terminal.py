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
    StandingLook,
    SuiteRow,
    Tone,
    by_scenario,
    standing,
)
from chaos.report.screen import bare_table, labelled, numbers, plain
from chaos.report.sections import Brevity, Line, broken, in_words, sections, ways
from chaos.words import plural

IN_A_SUITE = Brevity(anomalies=5, events=8, parts=12, notes=False)
BELOW_A_TEST = Brevity(anomalies=3, events=0, parts=8)

_INKS: dict[Tone, str] = {"bad": "red", "open": "yellow", "calm": "bold"}


def verdict_table(rows: Sequence[SuiteRow]) -> Table:
    """Return one line per scenario; a mark and a word, so that colour only repeats them.

    A scenario with repeats has the gravest verdict, the number that passed, and medians.
    """
    groups = by_scenario(rows)
    has_repeats = any(runs.are_repeats for runs in groups)
    names = ("passed" if has_repeats else "attempts", "lost steps", "recovery", "time")
    table = bare_table(
        Column("scenario", overflow="fold", ratio=1),
        Column("verdict", no_wrap=True),
        *numbers(*names),
    )
    for runs in groups:
        figures = runs.figures
        style = "yellow" if has_repeats and runs.is_flaky else ""
        first, *others = (Text(figures[name]) for name in names)
        first.style = style
        table.add_row(Text(runs.worst.scenario), _verdict(runs.worst), first, *others)
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
                yield Text(f"{STANDINGS[row.standing].mark} run {row.repeat}: {row.headline}")
                yield Text(f"  {row.directory}", style="dim")
    noted: dict[str, list[str]] = {}
    for row in rows:
        for note in () if row.verdict is None else row.verdict.notes:
            noted.setdefault(note, []).append(row.scenario)
    for note, scenarios in noted.items():
        more = f" and {len(scenarios) - 1} more" if len(scenarios) > 1 else ""
        yield Text.assemble(("note: ", "yellow"), note, (f" ({scenarios[0]}{more})", "dim"))


def explain(verdict: Verdict, scenario: str, *, directory: str) -> Group:
    """Return the reasons why a run did not pass; `directory` is its folder."""
    look = _look(verdict)
    word = Text(f"{look.mark} {in_words(verdict)}", style=look.style)
    parts: list[RenderableType] = [Text.assemble(word, f" · {scenario}"), _in(verdict.headline)]
    if not verdict.as_expected:
        parts.append(_in(verdict.expectation))
    return Group(*parts, *_below(verdict, IN_A_SUITE, directory))


def explanation(run: FinishedRun) -> Group:
    """Return the verdict, the broken promises, the lost state, and the next commands."""
    verdict = run.verdict
    below = _below(verdict, BELOW_A_TEST, run.directory)
    return Group(Text(verdict.expectation, style="bold"), _in(verdict.headline), *below)


def broken_off(run: FinishedRun, why: str) -> Group:
    """Return the progress of a run that was ended from outside, and the promises broken by then.

    Inconclusive checks are not listed: nearly all are.
    """
    lines = broken(run.verdict, BELOW_A_TEST, said=why)
    found: list[RenderableType] = [Text(""), _columns(lines)] if lines else []
    (page, *_) = _ways(run.directory)
    return Group(Text(why, style="bold"), _in(_how_far(run)), *found, Text(""), page)


def _below(verdict: Verdict, brevity: Brevity, directory: str) -> Iterator[RenderableType]:
    """Yield what stands below the headline: the sections, and the ways on."""
    for section in sections(verdict, brevity):
        yield Text("")
        if section.title:
            yield _in(section.title)
        yield _columns(section.lines, indent=4 if section.title else 2)
    yield Text("")
    yield from _ways(directory, verdict)


def _ways(directory: str, verdict: Verdict | None = None) -> list[Text]:
    """Return a path and commands, which are never broken, so that they can be copied."""
    return [
        Text.assemble((f"  {name}  ", "bold"), value, no_wrap=True, overflow="ignore")
        for name, value in ways(directory, verdict)
    ]


def _columns(lines: Sequence[Line], indent: int = 2) -> Padding:
    return Padding(labelled(once(lines, _INKS)), (0, 0, 0, indent))


def once(lines: Iterable[Line], inks: Mapping[Tone, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the label, its style and the text of each line; of equal labels only the first."""
    before = None
    for line in lines:
        label = "" if line.label == before else line.label
        events = f"  [{line.events}]" if line.events else ""
        yield label, inks[line.tone], f"{line.text}{events}"
        before = line.label


def _in(words: str) -> Padding:
    return Padding(Text(words), (0, 0, 0, 2))


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
    """Return text without colours, wrapped but for what is never broken."""
    return plain(lambda console: console.print(words, crop=False), width=width)


def print_suite(rows: Sequence[SuiteRow], console: Console) -> None:
    """Print the results of a suite.

    A command or a path is never broken.
    """
    for each in ("", *findings(rows)):
        parts = each.renderables if isinstance(each, Group) else [each]
        for part in parts:
            console.print(part, soft_wrap=bool(getattr(part, "no_wrap", False)))
    console.print(verdict_table(rows))
    console.print(closing_line(rows))


def row_line(row: SuiteRow) -> Text:
    """Return the line of one run as it ends, if several go on at once."""
    return Text.assemble(_verdict(row), f"  {row.scenario}  {row.duration_s:.1f} s")


def closing_line(rows: Sequence[SuiteRow]) -> Text:
    """Count a suite's scenarios by their standing, and those as expected only in some repeats."""
    groups = by_scenario(rows)
    counts = Counter(runs.worst.standing for runs in groups)
    parts = [
        (f"{look.mark} {counts[kind]} {look.word}", look.style)
        for kind, look in STANDINGS.items()
        if counts[kind]
    ]
    if flaky := sum(runs.is_flaky for runs in groups):
        parts.append((f"{flaky} flaky", "yellow"))
    return Text("   ").join(Text(text, style=style) for text, style in parts)


def _look(verdict: Verdict) -> StandingLook:
    # An expected inconclusive run is still not green: no promise was shown to hold.
    return STANDINGS["undecided" if verdict.status == "inconclusive" else standing(verdict)]


def _verdict(row: SuiteRow) -> Text:
    if row.verdict is None:
        look = STANDINGS[row.standing]
        return Text(f"{look.mark} {look.word}", style=look.style)
    status, words, look = row.verdict.status, in_words(row.verdict, brief=True), _look(row.verdict)
    return Text.assemble((f"{look.mark} {status}", look.style), words.removeprefix(status))
