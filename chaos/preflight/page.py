"""The answer as a page: one file, everything inside, nothing loaded from anywhere."""

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from chaos import __version__
from chaos.check.result import plural
from chaos.preflight.answer import Answer, Word
from chaos.preflight.charts import charts
from chaos.preflight.figures import figure_rows, finish_text, goal_rows
from chaos.preflight.forecast import Forecast
from chaos.preflight.terminal import interval, points, spelled
from chaos.report import chart as ch
from chaos.report.page import Fact, Tone

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
        interval=interval,
        command=spelled(answer.changes),
        plural=plural,
        version=__version__,
        weights={"stops": "bad", "costs": "open", "advice": "calm"},
    )


def facts(seen: Forecast | None) -> tuple[Fact, ...]:
    """Give the figures people ask for first."""
    if seen is None:
        return ()
    return (
        Fact("goodput", f"{seen.goodput.middle:.1%}"),
        Fact("finishes after", finish_text(seen)),
        Fact("cost, of on-demand", f"{seen.cost.middle:.0%}"),
        Fact("restarts", f"{seen.restarts.middle:.0f}"),
        Fact("runs that finish", f"{seen.finishes.share:.1%}"),
        Fact("retries run out", f"{seen.spent.share:.1%}"),
    )
