"""A run and a suite in Markdown: for a pull request, an issue, the summary of a CI step."""

import re
from collections.abc import Iterable, Sequence

from chaos.check.goodput import ledger, ledger_of
from chaos.check.headline import as_sentence
from chaos.report import page
from chaos.report.outcome import (
    FIGURES,
    STANDINGS,
    FinishedRun,
    ScenarioRuns,
    SuiteRow,
    by_scenario,
    tone,
    tone_of,
)
from chaos.report.screen import on_one_line
from chaos.report.sections import Brevity, Line, Section, in_words, replay, sections, suite_in_words
from chaos.words import and_more, begun

LIMIT_BYTES = 1_000_000  # GitHub refuses a step summary of more than 1 MiB
BREVITY = Brevity(anomalies=10, events=10, parts=20)
REASONS_SHOWN = 50
SIGNS = {"good": "✅", "bad": "❌", "open": "❔", "calm": "☑️"}
SKIPPED = "⏭️"
_ACTIVE = re.compile(r"([\\`*_\[\]<>|~])|^(:)(?=:)")  # the last one: a command to GitHub


def run_in_markdown(run: FinishedRun) -> str:
    """Return one run: verdict, proof of the fault's effect, findings, time by phase."""
    verdict, facts = run.verdict, page.facts(run)
    lines = [
        f"# {SIGNS[tone(verdict)]} {in_words(verdict)}: {plain(run.plan.scenario)}",
        "",
        plain(verdict.headline),
    ]
    if not verdict.as_expected:
        lines += ["", plain(as_sentence(verdict.expectation))]
    lines += [
        "",
        *table([*facts], [[plain(value) for value in facts.values()]]),
        "",
    ]
    lines += _ops(run)
    for section in sections(verdict, BREVITY):
        lines += _section(section)
    lines += _goodput(run)
    lines += ["## Again", "", code(replay(run.directory)), ""]
    return fitted("\n".join(lines))


def suite_in_markdown(rows: Sequence[SuiteRow], *, title: str = "chaos") -> str:
    """Return a suite: a line per scenario, and the reason for each unexpected verdict.

    A scenario with repeats has the gravest verdict, the number that passed, and medians.
    """
    groups = by_scenario(rows)
    passed = ("passed",) if any(runs.are_repeats for runs in groups) else ()
    head = ("scenario", "verdict", *passed, *FIGURES)
    cells = [_cells(runs, head[2:]) for runs in groups]
    lines = [f"# {title}: {suite_in_words(groups)}", ""]
    lines += [*table(head, cells, numbers_from=2), ""]
    amiss = [row for row in rows if row.standing != "expected"]
    for row in amiss[:REASONS_SHOWN]:
        number = "" if row.repeat is None else f", run {row.repeat}"
        lines += [f"### {_sign(row)} {plain(row.scenario)}{number}", ""]
        lines += [plain(row.headline), ""]
        if row.directory:
            lines += [code(replay(row.directory)), ""]
    if len(amiss) > REASONS_SHOWN:
        lines += [and_more(len(amiss) - REASONS_SHOWN), ""]
    return fitted("\n".join(lines))


def _cells(runs: ScenarioRuns, names: Sequence[str]) -> tuple[str, ...]:
    worst, figures = runs.worst, runs.figures
    return (
        f"{_sign(worst)} {plain(worst.scenario)}",
        plain(in_words(worst.verdict) if worst.verdict else STANDINGS[worst.standing].word),
        *(figures[name] for name in names),
    )


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers_from: int | None = None
) -> list[str]:
    """Return the lines of a table; the columns from `numbers_from` on are aligned right."""
    since = len(head) if numbers_from is None else numbers_from
    rule = ["---" if place < since else "---:" for place in range(len(head))]
    return ["| " + " | ".join(cells) + " |" for cells in (head, rule, *rows)]


def plain(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    return _ACTIVE.sub(r"\\\1\2", on_one_line(text))


def code(text: str) -> str:
    """Return a command or a path as Markdown shows it in one line of code."""
    words = on_one_line(text)
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", words)), default=0))
    return f"{ticks}{words}{ticks}" if ticks == "`" else f"{ticks} {words} {ticks}"


def fitted(text: str, *, limit: int = LIMIT_BYTES) -> str:
    """Return a text of at most `limit` bytes, cut at a line, with a note if it was cut."""
    if len(text.encode()) <= limit:
        return text
    tail = "\n\n(cut here: the rest is in the report)\n"
    kept = text.encode()[: limit - len(tail.encode())].decode(errors="ignore")
    return kept.rpartition("\n")[0] + tail


def _ops(run: FinishedRun) -> list[str]:
    ops = page.op_rows(run)
    if not ops:
        return ["## What was done to the job", "", "Nothing: this plan has no fault.", ""]
    cells = [
        (
            str(op.index),
            *(plain(text) for text in (op.place, op.fault, op.target, op.status, op.detail)),
            ", ".join(str(number) for number in op.events),
        )
        for op in ops
    ]
    head = ("op", "place", "fault", "target", "status", "what was seen", "events")
    return ["## What was done to the job", "", *table(head, cells), ""]


def _section(section: Section) -> list[str]:
    title = plain(begun(section.title) or "What was found")
    return [f"## {title}", "", *map(bullet, section.lines), ""]


def bullet(line: Line) -> str:
    """Return a line as an item of a list."""
    label = f"**{plain(line.label)}**: " if line.label else ""
    return f"- {label}{plain(line.text)}" + (f" ({line.events})" if line.events else "")


def _goodput(run: FinishedRun) -> list[str]:
    from chaos.report.goodput import goodput_rows, sentence  # noqa: PLC0415 - it draws, as a page

    found = ledger_of(run.analysis)
    if not found.wall_ns:
        return []
    clean = ledger(run.analysis.reference) if run.analysis.reference else None
    rows = goodput_rows(found, clean, (), run.analysis.terms)
    cells = [(row.phase, row.seconds, row.share, row.baseline or "-", row.meaning) for row in rows]
    head = ("phase", "this run", "share", "baseline", "what it is")
    return ["## Goodput", "", sentence(found, clean), "", *table(head, cells), ""]


def _sign(row: SuiteRow) -> str:
    return SKIPPED if row.standing == "skipped" else SIGNS[tone_of(row)]
