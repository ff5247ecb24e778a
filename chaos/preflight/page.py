"""The answer as a page: one file, everything inside, nothing loaded from anywhere."""

from dataclasses import dataclass

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from chaos import __version__
from chaos.preflight.answer import Answer
from chaos.preflight.charts import charts
from chaos.preflight.figures import (
    Cells,
    border,
    figure_notes,
    figure_rows,
    finish_cells,
    finish_unit,
    goal_rows,
    when,
)
from chaos.preflight.forecast import Chance
from chaos.preflight.terminal import changes_head, interval, pasted, points, signed
from chaos.preflight.verdict import Word
from chaos.preflight.words import in_hours
from chaos.report import chart as ch
from chaos.report.page import Tone
from chaos.words import plural

_LOOKS: dict[Word, tuple[Tone, str]] = {
    "go": ("good", "✓"),
    "go with changes": ("open", "!"),
    "no-go": ("bad", "✗"),
    "cannot tell": ("calm", "?"),
}
_env = Environment(
    # The frame, the style and the words are those of the report of a run.
    loader=ChoiceLoader([PackageLoader("chaos.preflight"), PackageLoader("chaos.report")]),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render_answer(answer: Answer) -> str:
    """Return the page of an answer: the verdict first, then what it rests on."""
    drawn, (tone, sign) = charts(answer), _LOOKS[answer.word]
    return _env.get_template("preflight.html.j2").render(
        answer=answer,
        question=answer.question,
        costs=answer.question.costs.model_dump() if answer.question.costs else {},
        tone=tone,
        sign=sign,
        facts=facts(answer),
        notes=figure_notes(answer),
        border=border(answer),
        rows=(*figure_rows(answer), *goal_rows(answer)),
        charts=drawn,
        svg={one.name: Markup(one.svg) for one in drawn},  # noqa: S704 (Vega escapes it)
        bundle=Markup(ch.bundle()) if drawn else None,  # noqa: S704 (a library)
        points=points,
        signed=signed,
        struck="" if answer.loss_every_s is None else in_hours(answer.loss_every_s / 3600),
        interval=interval,
        command=pasted(answer.changes),
        changes_head=changes_head(answer),
        plural=plural,
        version=__version__,
        weights={"stops": "bad", "costs": "open", "advice": "calm"},
    )


@dataclass(frozen=True)
class Ranged:
    """A figure that people ask for first, and where it lies."""

    name: str
    value: str
    range: str


def facts(answer: Answer) -> tuple[Ranged, ...]:
    """Return the figures people ask for first: 5 to 95 % of runs, or a share's 95 % interval."""
    seen = answer.forecast
    if seen is None:
        return ()
    (unit, _), (low, _, high) = finish_unit(seen), finish_cells(seen)
    middle = when(seen, seen.finish_h.middle).removeprefix("after ")
    by_row = {row[0]: row for row in figure_rows(answer)}
    return (
        _fact("goodput", by_row["goodput"]),
        Ranged("finishes after", middle, _range(low, high, unit)),
        *(_fact(name, row) for name, row in by_row.items() if name.startswith("cost")),
        _fact("restarts", by_row["restarts"]),
        _share("runs that finish", seen.finishes),
        _share("retries run out", seen.spent),
    )


def _range(low: str, high: str, unit: str) -> str:
    if "never" in (low, high):
        return low if low == high else f"{low} {unit} to {high}"
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def _fact(name: str, row: Cells) -> Ranged:
    return Ranged(name, row[2], row[1] if row[1] == row[3] else f"{row[1]} to {row[3]}")


def _share(name: str, of: Chance) -> Ranged:
    return Ranged(name, f"{of.share:.1%}", f"{of.low:.1%} to {of.high:.1%}")
