"""The answer as a page: one file, everything inside, nothing loaded from anywhere."""

from dataclasses import dataclass

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from chaos import __version__
from chaos.check.result import plural
from chaos.preflight.answer import Answer
from chaos.preflight.charts import charts
from chaos.preflight.figures import figure_rows, goal_rows, ranged
from chaos.preflight.forecast import Chance, Forecast, Spread
from chaos.preflight.terminal import interval, points, signed, spelled
from chaos.preflight.verdict import Word
from chaos.preflight.words import in_hours
from chaos.report import chart as ch
from chaos.report.page import Tone

_TONES: dict[Word, Tone] = {
    "go": "good",
    "go with changes": "bad",
    "no-go": "bad",
    "unknown": "open",
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
    """Give the page of an answer: the verdict first, then what it rests on."""
    drawn = charts(answer)
    return _env.get_template("preflight.html.j2").render(
        answer=answer,
        question=answer.question,
        costs=answer.question.costs.model_dump() if answer.question.costs else {},
        tone=_TONES[answer.word],
        facts=facts(answer.forecast),
        rows=(*figure_rows(answer), *goal_rows(answer)),
        charts=drawn,
        svg={one.name: Markup(one.svg) for one in drawn},  # noqa: S704 (Vega escapes it)
        bundle=Markup(ch.bundle()) if drawn else None,  # noqa: S704 (a library)
        points=points,
        signed=signed,
        struck="" if answer.loss_every_s is None else in_hours(answer.loss_every_s / 3600),
        interval=interval,
        command=spelled(answer.changes),
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


def facts(seen: Forecast | None) -> tuple[Ranged, ...]:
    """Give the figures people ask for first: 5 to 95 % of runs, or a share's 95 % interval."""
    if seen is None:
        return ()
    low, middle, high = ("-", "never", "-") if seen.finish_h is None else ranged(seen.finish_h)
    return (
        _fact("goodput", seen.goodput, "{:.1%}"),
        Ranged("finishes after", middle, f"{low} to {high}"),
        _fact("cost, of on-demand", seen.cost, "{:.0%}"),
        _fact("restarts", seen.restarts, "{:.0f}"),
        _fact("runs that finish", seen.finishes, "{:.1%}"),
        _fact("retries run out", seen.spent, "{:.1%}"),
    )


def _fact(name: str, of: Spread | Chance, form: str) -> Ranged:
    value = of.middle if isinstance(of, Spread) else of.share
    return Ranged(name, form.format(value), f"{form.format(of.low)} to {form.format(of.high)}")
