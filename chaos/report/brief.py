"""The explanation of a run's verdict in a few lines; the page has the rest."""

import io
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chaos.model.diagnosis import Resume
from chaos.model.verdict import CheckResult, Verdict
from chaos.report.live import Progress, advance_all
from chaos.report.outcome import FinishedRun, in_words
from chaos.report.screen import screen
from chaos.report.state_table import lost
from chaos.words import plural

ANOMALIES_SHOWN = 3
PARTS_SHOWN = 8
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
        parts += _not_back(resume)
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


def line_of(verdict: Verdict) -> str:
    """Return the finding on one line: its check and its message."""
    if verdict.broken:
        first = verdict.broken[0]
        found = first.anomalies[0].message if first.anomalies else first.summary
        return f"{in_words(verdict)}, {first.check}: {found}"
    if verdict.undecided:
        first = verdict.undecided[0]
        return f"{in_words(verdict)}, {first.check}: {first.summary}"
    return f"{in_words(verdict)}: {verdict.headline}"


def by_reason(undecided: Sequence[CheckResult]) -> dict[str, list[str]]:
    """Return the inconclusive checks by their reason: many lack the same restart."""
    reasons: dict[str, list[str]] = {}
    for result in undecided:
        reasons.setdefault(result.summary, []).append(result.check)
    return reasons


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
    shown, more = fresh[:ANOMALIES_SHOWN], len(fresh) - ANOMALIES_SHOWN
    return [*shown, *([f"and {more} more, in the report"] if more > 0 else [])] or [AS_ABOVE]


def _undecided(verdict: Verdict) -> Iterator[tuple[str, str]]:
    said = verdict.headline.lower()
    told = (
        f"{', '.join(checks)}: {AS_ABOVE if why.lower() in said else why}"
        for why, checks in by_reason(verdict.undecided).items()
    )
    yield from zip(_first("inconclusive"), told, strict=False)


def _not_back(resume: Resume) -> list[RenderableType]:
    gone = lost(resume)[:PARTS_SHOWN]
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
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, what in rows:
        table.add_row(Text(name, style="bold"), Text(what))
    return _in(table)


def _in(words: RenderableType) -> Padding:
    return Padding(Text(words) if isinstance(words, str) else words, (0, 0, 0, 2))
