"""The answer as Markdown, for the page that GitHub shows of a workflow's run."""

from collections.abc import Iterator, Sequence

from chaos.preflight.answer import Answer
from chaos.preflight.comparison import Validation
from chaos.preflight.figures import border, figure_notes, figure_rows, goal_rows
from chaos.preflight.forecast import Forecast
from chaos.preflight.rules.rule import Finding
from chaos.preflight.terminal import changes_head, interval, pasted, where_time_goes
from chaos.preflight.verdict import Word
from chaos.report.screen import on_one_line

_MARKS: dict[Word, str] = {
    "go": "✅",
    "go with changes": "⚠️",
    "no-go": "❌",
    "cannot tell": "❔",
}


def render_summary(answer: Answer) -> str:
    """Return verdict, figures, findings and what to set as Markdown."""
    return "\n".join([*_lines(answer), ""])


def _lines(answer: Answer) -> Iterator[str]:
    yield f"### {_MARKS[answer.word]} preflight: {answer.word}"
    yield ""
    yield f"{_cell(answer.question.preflight)} on the market {_cell(answer.question.market.name)}."
    yield f"{_cell(answer.why)}."
    if answer.forecast is not None:
        yield from _figures(answer, answer.forecast)
    yield from _found("what is wrong", answer.findings)
    if answer.ignored:
        yield ""
        yield f"Ignored: {', '.join(answer.ignored)}."
    if answer.changes:
        yield ""
        yield f"{changes_head(answer).capitalize()}:"
        yield ""
        yield f"```\n{pasted(answer.changes)}\n```"
    yield from _found("to look at with the changes", answer.new_findings)
    if answer.by_hand:
        yield ""
        yield f"To mend by hand: {', '.join(f'`{one.rule}`' for one in answer.by_hand)}."
    for held in answer.validation:
        yield ""
        yield from _validation(held)
    for note in answer.notes:
        yield ""
        yield f"Note: {_cell(note)}."


def _figures(answer: Answer, seen: Forecast) -> Iterator[str]:
    rows = [row[:4] for row in (*figure_rows(answer), *goal_rows(answer))]
    yield ""
    yield from _table(("", "5 %", "50 %", "95 %"), rows)
    yield ""
    yield f"Time goes: {where_time_goes(seen)}. "
    yield f"{seen.runs} simulated runs, seed {answer.effort.seed}."
    yield from (f"{note} " for note in figure_notes(answer))
    if (text := border(answer)) is not None:
        yield f"{text[:1].upper()}{text[1:]}."


def _found(head: str, findings: Sequence[Finding]) -> Iterator[str]:
    if findings:
        yield ""
        yield from _table(("setting", head), [(f"`{one.rule}`", one.text) for one in findings])


def _validation(held: Validation) -> Iterator[str]:
    yield f"Held against {_cell(held.what)}:"
    yield ""
    rows = [
        (
            f"{'✅' if row.agrees else '❌'} {row.figure}{f', {row.unit}' if row.unit else ''}",
            interval(row.predicted),
            interval(row.measured),
            f"{row.difference:+.1%}",
        )
        for row in held.rows
    ]
    yield from _table(("mean, 95 % interval", "predicted", "measured", "off by"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + " --- |" * len(head)
    for row in rows:
        yield "| " + " | ".join(_cell(cell) for cell in row) + " |"


def _cell(text: str) -> str:
    """Return text that neither ends a cell nor opens a tag."""
    plain = on_one_line(text).replace("\\", "\\\\").replace("|", "\\|")
    return plain.replace("<", "&lt;").replace(">", "&gt;")
