"""The answer as Markdown, for the page that GitHub shows of a workflow's run."""

from collections.abc import Iterator, Sequence

from chaos.preflight.answer import Answer
from chaos.preflight.comparison import Validation
from chaos.preflight.figures import figure_rows, goal_rows
from chaos.preflight.terminal import interval, spelled, where_time_goes
from chaos.preflight.verdict import Word
from chaos.report.harmless import on_one_line

_MARKS: dict[Word, str] = {"go": "✅", "go with changes": "❌", "no-go": "❌", "unknown": "❔"}


def render_summary(answer: Answer) -> str:
    """Give verdict, figures, findings and what to set as Markdown."""
    return "\n".join([*_lines(answer), ""])


def _lines(answer: Answer) -> Iterator[str]:
    yield f"### {_MARKS[answer.word]} preflight: {answer.word}"
    yield ""
    yield f"{_cell(answer.question.preflight)} on the market {_cell(answer.question.market.name)}."
    yield f"{_cell(answer.why)}."
    if answer.forecast is not None:
        yield ""
        rows = [row[:4] for row in (*figure_rows(answer), *goal_rows(answer))]
        yield from _table(("", "5 %", "50 %", "95 %"), rows)
        yield ""
        yield f"Time goes: {where_time_goes(answer.forecast)}. "
        yield f"{answer.forecast.runs} simulated runs, seed {answer.effort.seed}."
    if answer.findings:
        yield ""
        found = [(f"`{finding.rule}`", finding.text) for finding in answer.findings]
        yield from _table(("setting", "what is wrong"), found)
    if answer.ignored:
        yield ""
        yield f"Ignored: {', '.join(answer.ignored)}."
    if answer.changes:
        yield ""
        yield f"Set: `{spelled(answer.changes)}`"
    for held in answer.validation:
        yield ""
        yield from _validation(held)
    for note in answer.notes:
        yield ""
        yield f"Note: {_cell(note)}."


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
    """Give text that neither ends a cell nor opens a tag."""
    plain = on_one_line(text).replace("\\", "\\\\").replace("|", "\\|")
    return plain.replace("<", "&lt;").replace(">", "&gt;")
