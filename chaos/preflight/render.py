"""The answer in a terminal, 80 columns wide, and in Markdown; its figures as rows of text."""

import json
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from chaos.preflight.advice import Advice, SettingsAdvice
from chaos.preflight.answer import Answer
from chaos.preflight.estimate import (
    Estimate,
    Quantiles,
    choose_time_unit,
    format_hours,
    format_percent,
    format_price_share,
    format_seconds,
)
from chaos.preflight.forecast import Forecast, find_reference_node_s
from chaos.preflight.market import describe_trace_nodes
from chaos.preflight.question import Question
from chaos.preflight.rules.rule import RuleFinding
from chaos.preflight.validation import FigureComparison, Validation
from chaos.preflight.verdict import Word
from chaos.report.markdown import build_table_lines as markdown_table
from chaos.report.outcome import Tone
from chaos.report.screen import (
    build_bare_table,
    build_labelled_table,
    build_number_columns,
    join_lines,
)
from chaos.wording import capitalize_first

SHOWN = 5
ENDLESS = (
    "each by itself, with retries without limit but in the rows of budgets; cost is in parts, or "
    "times, of that on demand"
)
LEAST_SHOWN = 0.0005


class VerdictStyle(NamedTuple):
    """The signs of a verdict: in a terminal and on a page, and in Markdown."""

    mark: str
    style: str
    tone: Tone
    emoji: str


LOOKS: dict[Word, VerdictStyle] = {
    "go": VerdictStyle("✓", "green", "good", "✅"),
    "go with changes": VerdictStyle("!", "yellow", "open", "⚠️"),
    "no-go": VerdictStyle("✗", "bold red", "bad", "❌"),
    "cannot tell": VerdictStyle("?", "bold blue", "calm", "❔"),
}
_WEIGHTS = {"stops": ("✗", "red"), "costs": ("!", "yellow"), "advice": ("·", "dim")}


def format_answer(answer: Answer, *, page: str | None = None) -> RenderableType:
    """Return the verdict, its figures, the findings, the changes, and the evidence."""
    verdict_style = LOOKS[answer.word]
    lines: list[RenderableType] = [
        Text(f"{verdict_style.mark} {answer.word}: {answer.why}", style=verdict_style.style),
        *([Text(answer.would_take)] if answer.would_take else []),
        Text(""),
        *_reading_lines(answer),
    ]
    if answer.forecast is not None:
        lines += [_figures(answer), *(Text(note, style="dim") for note in figure_notes(answer))]
        lines.append(Text(""))
    if answer.findings:
        lines += [_findings(answer.findings), Text("")]
    if answer.counsel is not None:
        lines += [*_advice(answer.counsel), Text("")]
    if answer.changes:
        lines += [*_changes(answer), Text("")]
    for validation in answer.validation:
        lines += [*_validation(validation), Text("")]
    lines.append(build_labelled_table(_tail(answer, page)))
    return Lines(*lines)


def as_read(answer: Answer) -> str:
    """Return the answer by one way to read a question, in a line."""
    return f"{answer.read_as}: {answer.word}: {answer.why}"


def _reading_lines(answer: Answer) -> Iterator[RenderableType]:
    """Yield the answers by each way to read a trace: with all figures where they differ."""
    if answer.depends:
        for reading in answer.readings:
            yield Text(as_read(reading), style=LOOKS[reading.word].style)
            yield _figures(reading)
            extra_findings = own_findings(reading, answer)
            yield from [_findings(extra_findings)] if extra_findings else []
            yield Text("")
    elif answer.readings:
        head, *columns = READINGS_HEAD
        table = _table(head, *columns)
        for name, *cells in readings_rows(answer):
            table.add_row(Text(name), *cells)
        yield table
        yield Text("")


def _figures(answer: Answer) -> Table:
    """Return the forecast as rows of 5, 50 and 95 %, with the median after the changes."""
    columns = ["5 %", "50 %", "95 %", *(["changed"] if answer.after is not None else [])]
    table = _table("", *columns)
    for name, *cells in figure_rows(answer):
        table.add_row(Text(name), *cells[: len(columns)])
    return table


def describe_time_use(forecast: Forecast) -> str:
    """Return the ledger in one line, the largest part first, without empty parts."""
    words = {
        "useful": "training",
        "save": "saving",
        "lost": "done again",
        "restart": "restarting",
        "wait": "waiting for nodes",
        "shrunk": "fewer nodes",
    }
    parts = sorted(forecast.ledger.items(), key=lambda part: -part[1])
    return ", ".join(f"{words[name]} {share:.1%}" for name, share in parts if share >= LEAST_SHOWN)


def _validation(validation: Validation) -> Iterator[RenderableType]:
    yield Text(f"compared with {validation.what}", style="bold")
    table = _table("", "predicted", "measured", "off by", "inside")
    for row in validation.rows:
        name, *cells = _compared_cells(row)
        mark, style = ("✓", "") if row.agrees else ("✗", "yellow")
        inside = "" if row.inside is None else f"{row.inside:.0%}"
        table.add_row(Text(f"{mark} {name}", style=style), *cells, inside)
    yield table
    for note in validation.notes:
        yield Text(note, style="yellow")


def _compared_cells(row: FigureComparison) -> tuple[str, ...]:
    name = f"{row.figure}, {row.unit}" if row.unit else row.figure
    return name, interval(row.predicted), interval(row.measured), f"{row.difference:+.1%}"


def interval(estimate: Estimate) -> str:
    """Return a mean and its 95 % interval."""
    return f"{estimate.value:.3g} ({estimate.low:.3g} to {estimate.high:.3g})"


def _findings(findings: Sequence[RuleFinding]) -> Table:
    marks = [(*_WEIGHTS[finding.weight], finding) for finding in findings]
    return build_labelled_table(
        (f"{mark} {rule_finding.rule}", style, rule_finding.text)
        for mark, style, rule_finding in marks
    )


def _advice(counsel: SettingsAdvice) -> Iterator[RenderableType]:
    worthwhile = [advice for advice in counsel.settings if advice.is_worth_it][:SHOWN]
    if worthwhile:
        yield _gains("change", worthwhile)
    if counsel.levers:
        if worthwhile:
            yield Text("")
        yield _gains("what a cost is worth", counsel.levers[:3])
    if worthwhile or counsel.levers:
        yield Text(ENDLESS, style="dim")


def _changes(answer: Answer) -> Iterator[RenderableType]:
    """Yield the line to paste, whole, and the steps that remain beside it."""
    yield Text(changes_head(answer), style="bold")
    yield Text(format_set_options(answer.changes))
    if answer.new_findings:
        yield _findings(answer.new_findings)
    if answer.by_hand:
        yield Text(f"to mend by hand: {', '.join(finding.rule for finding in answer.by_hand)}")


def changes_head(answer: Answer) -> str:
    """Return in words the effect of the changes."""
    if not answer.meets_changed:
        return "of the changes that were tried together, these come nearest to the goals"
    return "set together, these meet every goal"


def _gains(head: str, rows: Sequence[Advice]) -> Table:
    table = _table(head, "goals met", "goodput", "cost")
    for advice in rows:
        table.add_row(Text(advice.what), *(text for text, _ in gain_cells(advice)))
    return table


def gain_cells(advice: Advice) -> tuple[tuple[str, str], ...]:
    """Return the gains in goals met, goodput and cost, each with the range of its interval."""
    cost = (
        ("not known", "")
        if advice.cost is None
        else _gain_cell(advice.cost, _cost_unit(advice.cost))
    )
    return _gain_cell(advice.chance), _gain_cell(advice.goodput), cost


def _cost_unit(gain: Estimate) -> Literal["pt", "times"]:
    return "times" if max(abs(gain.low), abs(gain.high)) >= 1 else "pt"


def _gain_cell(gain: Estimate, unit: Literal["pt", "times"] = "pt") -> tuple[str, str]:
    """Return a difference of shares, or "unsure", and its range."""
    times = 100 if unit == "pt" else 1
    value, low, high = (
        "0" if text in ("+0.0", "-0.0") else text
        for text in (f"{times * share:+,.1f}" for share in (gain.value, gain.low, gain.high))
    )
    if value == "0":
        return value, f"{low} to {high}"
    return f"{value} {unit}" if gain.excludes_zero else "unsure", f"{low} to {high} {unit}"


def _tail(answer: Answer, page: str | None) -> Iterator[tuple[str, str, str]]:
    forecast, curve = answer.forecast, answer.curve
    if forecast is not None:
        yield "time goes", "dim", describe_time_use(forecast)
    if curve is not None:
        low, high = curve.flat_s
        text = (
            f"any interval from {format_seconds(low)} to {format_seconds(high)} is within 1 pt of "
            "the best"
        )
        if low == high:
            text = f"of those tried, only {format_seconds(low)} is within 1 pt of the best"
        yield "interval", "dim", text
    if (goals := border(answer)) is not None:
        yield "border", "dim", goals
    yield from _ground(answer)
    if (runs := simulated_runs(answer)) is not None:
        yield "rests on", "dim", f"{runs:,} simulated runs, seed {answer.effort.seed}"
    if page is not None:
        yield "report", "dim", page


def simulated_runs(answer: Answer) -> int | None:
    """Return the runs that the figures are from; None without figures."""
    forecast = next(
        (a.forecast for a in (answer, *answer.readings) if a.forecast is not None), None
    )
    return None if forecast is None else forecast.runs


def _ground(answer: Answer) -> Iterator[tuple[str, str, str]]:
    market, costs = answer.question.market, answer.question.costs
    for trace_note in describe_trace_readings(answer):
        yield "trace", "dim", trace_note
    loss_interval = ""
    if answer.loss_every_s is not None:
        loss_interval = f", a loss for the job every {format_seconds(answer.loss_every_s)}"
    yield (
        "market",
        "dim",
        f"{market.name}: {market.mtbf_h:.1f} h per node{loss_interval} ({market.source})",
    )
    if costs is not None:
        yield "costs", "dim", costs.source
    if answer.ignored:
        yield "ignored", "yellow", ", ".join(answer.ignored)
    for note in answer.notes:
        yield "note", "yellow", note


def format_set_options(changes: dict[str, Any]) -> str:
    """Return changes in the form of the command line: one line, even a long one."""
    return " \\\n".join(
        f"--set {shlex.quote(f'{key}={_value(value)}')}" for key, value in changes.items()
    )


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _table(head: str, *columns: str) -> Table:
    return build_bare_table(Column(head, overflow="fold"), *build_number_columns(*columns))


# -- Markdown -----------------------------------------------------------------------------------


def render_summary(answer: Answer) -> str:
    """Return verdict, figures, findings and changes as Markdown."""
    return "\n\n".join(_paragraphs(answer)) + "\n"


def _paragraphs(answer: Answer) -> Iterator[str]:
    question = answer.question
    yield f"### {LOOKS[answer.word].emoji} preflight: {answer.word}"
    yield (
        f"{_cell(question.preflight)} on the market {_cell(question.market.name)}.\n"
        f"{_cell(answer.why)}."
    )
    if answer.would_take:
        yield f"{_cell(capitalize_first(answer.would_take))}."
    yield from _readings(answer)
    if answer.forecast is not None:
        yield _format_table(("", "5 %", "50 %", "95 %"), [row[:4] for row in figure_rows(answer)])
        yield "\n".join(_describe_forecast(answer, answer.forecast))
    yield from _findings_table("what is wrong", answer.findings)
    if answer.ignored:
        yield f"Ignored: {', '.join(answer.ignored)}."
    if answer.changes:
        yield f"{changes_head(answer).capitalize()}:"
        yield f"```\n{format_set_options(answer.changes)}\n```"
    yield from _findings_table("to look at with the changes", answer.new_findings)
    if answer.by_hand:
        yield f"To mend by hand: {', '.join(f'`{finding.rule}`' for finding in answer.by_hand)}."
    for validation in answer.validation:
        yield f"Compared with {_cell(validation.what)}:"
        yield _comparison(validation)
    for note in (*describe_trace_readings(answer), *answer.notes):
        yield f"Note: {_cell(note)}."


def _readings(answer: Answer) -> Iterator[str]:
    if answer.depends:
        for reading in answer.readings:
            yield f"{_cell(as_read(reading))}."
            yield _format_table(
                ("", "5 %", "50 %", "95 %"), [row[:4] for row in figure_rows(reading)]
            )
            yield from _findings_table("what is wrong", own_findings(reading, answer))
    elif answer.readings:
        yield _format_table(READINGS_HEAD, readings_rows(answer))


def _describe_forecast(answer: Answer, forecast: Forecast) -> Iterator[str]:
    yield f"Time goes: {describe_time_use(forecast)}. "
    yield f"{forecast.runs} simulated runs, seed {answer.effort.seed}."
    yield from (f"{note} " for note in figure_notes(answer))
    if (text := border(answer)) is not None:
        yield f"{capitalize_first(text)}."


def _findings_table(head: str, findings: Sequence[RuleFinding]) -> Iterator[str]:
    if findings:
        yield _format_table(
            ("setting", head), [(f"`{finding.rule}`", finding.text) for finding in findings]
        )


def _comparison(validation: Validation) -> str:
    marked = [("✅" if row.agrees else "❌", *_compared_cells(row)) for row in validation.rows]
    rows = [(f"{mark} {name}", *cells) for mark, name, *cells in marked]
    return _format_table(("mean, 95 % interval", "predicted", "measured", "off by"), rows)


def _format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(markdown_table(head, ([_cell(text) for text in row] for row in rows)))


def _cell(text: str) -> str:
    """Return text that neither ends a cell nor opens a tag."""
    plain = join_lines(text).replace("\\", "\\\\").replace("|", "\\|")
    return plain.replace("<", "&lt;").replace(">", "&gt;")


# -- figures as rows of text --------------------------------------------------------------------

Cells = tuple[str, str, str, str, str]
MANY_CUT_OFF = 0.05  # with fewer runs cut off, the figures of 5 to 95 % are those of whole runs


def figure_rows(answer: Answer) -> tuple[Cells, ...]:
    """Return (name with its unit, 5 %, 50 %, 95 %, 50 % with the changes) of each distribution.

    Rows of shares of runs have the lower end of their 95 % interval, the share, and the upper end.
    """
    if answer.forecast is None:
        return ()
    unit = finish_unit(answer.forecast)
    original_cells = _cells_by_name(answer.question, answer.forecast, unit)
    changed_cells = (
        None if answer.after is None else _cells_by_name(answer.question, answer.after, unit)
    )
    return tuple(
        (name, *cells, "-" if changed_cells is None else changed_cells[name][1])
        for name, cells in original_cells.items()
    )


READINGS_HEAD = ("by", "answer", "goals met", "goodput", "waiting")


def readings_rows(answer: Answer) -> tuple[tuple[str, ...], ...]:
    """Return the answer by each way to read it, of which one has the figures that are shown.

    Goals that are met are those of the runs that meet the goal met least often.
    """
    return tuple(
        (
            reading.read_as + (", as below" if reading.question == answer.question else ""),
            reading.word,
            f"{min(chance.share for chance in reading.forecast.meets.values()):.1%}",
            f"{reading.forecast.mean_goodput:.1%}",
            f"{reading.forecast.ledger['wait']:.1%}",
        )
        for reading in answer.readings
        if reading.forecast is not None
    )


def own_findings(reading: Answer, answer: Answer) -> tuple[RuleFinding, ...]:
    """Return the findings by one way to read a trace that are not among those by both."""
    return tuple(finding for finding in reading.findings if finding not in answer.findings)


def describe_trace_readings(answer: Answer) -> tuple[str, ...]:
    """Return in words how the nodes of a trace are read: both ways, where none was chosen."""
    questions = [description.question for description in answer.readings or (answer,)]
    words = (describe_trace_nodes(question.market, question.job.pool) for question in questions)
    return tuple(dict.fromkeys(description for description in words if description is not None))


def _cells_by_name(
    question: Question, forecast: Forecast, finish_unit: tuple[str, float]
) -> dict[str, tuple[str, str, str]]:
    unit, units_per_hour = finish_unit
    unseen_text = (
        "never" if forecast.watched_h is None else f"> {forecast.watched_h * units_per_hour:.0f}"
    )
    prefix = "≥ " if forecast.cut_off.share >= MANY_CUT_OFF else ""
    cells = {
        "goodput": _spread_cells(forecast.goodput, "{:.1%}"),
        f"finishes after, {unit}": _spread_cells(
            forecast.finish_h, "{:.1f}", units_per_hour, unseen=unseen_text
        ),
        "restarts": _spread_cells(forecast.restarts, f"{prefix}{{:.0f}}"),
        "steps done again": _spread_cells(forecast.lost_steps, f"{prefix}{{:,.0f}}"),
        "cost, of on-demand": _spread_cells(forecast.cost, format_price_share),
    }
    if (price := find_reference_price(question)) is not None:
        name = f"cost, {question.required_costs.currency}"
        cells[name] = _spread_cells(forecast.cost, "{:,.0f}", price)
    shares = {f"meets: {name}": chance for name, chance in forecast.meets.items()}
    for name, share_interval in {**shares, "retries run out": forecast.spent}.items():
        cells[name] = (
            f"{share_interval.low:.1%}",
            f"{share_interval.share:.1%}",
            f"{share_interval.high:.1%}",
        )
    return cells


def _spread_cells(
    spread: Quantiles, form: str | Callable[[float], str], times: float = 1.0, *, unseen: str = "-"
) -> tuple[str, str, str]:
    """Return the figures, `unseen` for one that is infinite."""
    format_value = form.format if isinstance(form, str) else form
    low, middle, high = (
        format_value(value * times) if math.isfinite(value) else unseen
        for value in (spread.low, spread.middle, spread.high)
    )
    return low, middle, high


def figure_notes(answer: Answer) -> tuple[str, ...]:
    """Return notes for reading the figures, a sentence each."""
    forecast, notes = answer.forecast, []
    if forecast is None:
        return ()
    if forecast.watched_h is not None:
        notes.append(
            f"Runs that had not ended after {format_hours(forecast.watched_h)} were cut off there, "
            f"{forecast.cut_off.share:.1%} of them; what is counted up to there is marked ≥."
        )
    if forecast.cost.high > 1 or forecast.finishes.share < 1:
        notes.append(
            "Cost is the price of a run over that of the same training on on-demand nodes; where "
            "a run does not finish, over that of the part of the work that it did: above 100 %, "
            "or in times, it is dearer than on demand."
        )
    if (price := find_reference_price(answer.question)) is not None:
        costs = answer.question.required_costs
        notes.append(
            f"On demand the training costs {costs.currency} {price:,.0f}, at "
            f"{costs.price_per_node_hour:g} per node-hour."
        )
    return tuple(notes)


def border(answer: Answer) -> str | None:
    """Return the strictest goals that would still be met, if all are; None if one is not."""
    forecast, need = answer.promised, answer.question.goal.confidence
    if forecast is None:
        return None
    changes = "with the changes " if forecast is answer.after else ""
    return (
        f"{changes}a deadline below {format_hours(forecast.borders['deadline'])}, a budget below "
        f"{format_price_share(forecast.borders['budget'])} of on-demand or a goodput above "
        f"{forecast.borders['goodput']:.1%} would be missed by more than "
        f"{format_percent(1 - need)} of runs"
    )


def find_reference_price(question: Question) -> float | None:
    """Return the price of the whole training on on-demand nodes; None if no price is given."""
    costs = question.costs
    if costs is None or costs.price_per_node_hour is None:
        return None
    return find_reference_node_s(question) / 3600 * costs.price_per_node_hour


def finish_unit(forecast: Forecast) -> tuple[str, float]:
    """Return the unit of finish times, and its number per hour."""
    candidates = (forecast.finish_h.middle, forecast.finish_h.low, forecast.watched_h)
    return choose_time_unit(
        next((h for h in candidates if h is not None and math.isfinite(h)), 24.0)
    )


def describe_finish_time(forecast: Forecast, hours: float) -> str:
    """Return the time at which a share of the runs is done; if not seen, the end of the watch."""
    if math.isfinite(hours):
        return f"after {format_hours(hours)}"
    return (
        "never" if forecast.watched_h is None else f"not within {format_hours(forecast.watched_h)}"
    )
