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

from chaos.preflight.advice import Advice, Counsel
from chaos.preflight.answer import Answer
from chaos.preflight.estimate import (
    Estimate,
    Spread,
    in_hours,
    in_percent,
    in_s,
    in_shares,
    unit_of,
)
from chaos.preflight.forecast import Forecast, on_demand_s
from chaos.preflight.market import in_words
from chaos.preflight.question import Question
from chaos.preflight.rules.rule import RuleFinding
from chaos.preflight.validation import FigureComparison, Validation
from chaos.preflight.verdict import Word
from chaos.report.markdown import table as markdown_table
from chaos.report.outcome import Tone
from chaos.report.screen import bare_table, labelled, numbers, on_one_line
from chaos.words import begun

SHOWN = 5
ENDLESS = (
    "each by itself, with retries without limit but in the rows of budgets; cost is in parts, or "
    "times, of that on demand"
)
LEAST_SHOWN = 0.0005


class Look(NamedTuple):
    """The signs of a verdict: in a terminal and on a page, and in Markdown."""

    mark: str
    style: str
    tone: Tone
    emoji: str


LOOKS: dict[Word, Look] = {
    "go": Look("✓", "green", "good", "✅"),
    "go with changes": Look("!", "yellow", "open", "⚠️"),
    "no-go": Look("✗", "bold red", "bad", "❌"),
    "cannot tell": Look("?", "bold blue", "calm", "❔"),
}
_WEIGHTS = {"stops": ("✗", "red"), "costs": ("!", "yellow"), "advice": ("·", "dim")}


def show_answer(answer: Answer, *, page: str | None = None) -> RenderableType:
    """Return the verdict, its figures, the findings, the changes, and the evidence."""
    look = LOOKS[answer.word]
    lines: list[RenderableType] = [
        Text(f"{look.mark} {answer.word}: {answer.why}", style=look.style),
        *([Text(answer.would_take)] if answer.would_take else []),
        Text(""),
        *_by_reading(answer),
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
    for held in answer.validation:
        lines += [*_validation(held), Text("")]
    lines.append(labelled(_tail(answer, page)))
    return Lines(*lines)


def as_read(answer: Answer) -> str:
    """Return the answer by one way to read a question, in a line."""
    return f"{answer.read_as}: {answer.word}: {answer.why}"


def _by_reading(answer: Answer) -> Iterator[RenderableType]:
    """Yield the answers by each way to read a trace: with all figures where they differ."""
    if answer.depends:
        for one in answer.readings:
            yield Text(as_read(one), style=LOOKS[one.word].style)
            yield _figures(one)
            own = own_findings(one, answer)
            yield from [_findings(own)] if own else []
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


def where_time_goes(seen: Forecast) -> str:
    """Return the ledger in one line, the largest part first, without empty parts."""
    words = {
        "useful": "training",
        "save": "saving",
        "lost": "done again",
        "restart": "restarting",
        "wait": "waiting for nodes",
        "shrunk": "fewer nodes",
    }
    parts = sorted(seen.ledger.items(), key=lambda part: -part[1])
    return ", ".join(f"{words[name]} {share:.1%}" for name, share in parts if share >= LEAST_SHOWN)


def _validation(held: Validation) -> Iterator[RenderableType]:
    yield Text(f"compared with {held.what}", style="bold")
    table = _table("", "predicted", "measured", "off by", "inside")
    for row in held.rows:
        name, *cells = _compared_cells(row)
        mark, style = ("✓", "") if row.agrees else ("✗", "yellow")
        inside = "" if row.inside is None else f"{row.inside:.0%}"
        table.add_row(Text(f"{mark} {name}", style=style), *cells, inside)
    yield table
    for note in held.notes:
        yield Text(note, style="yellow")


def _compared_cells(row: FigureComparison) -> tuple[str, ...]:
    name = f"{row.figure}, {row.unit}" if row.unit else row.figure
    return name, interval(row.predicted), interval(row.measured), f"{row.difference:+.1%}"


def interval(estimate: Estimate) -> str:
    """Return a mean and its 95 % interval."""
    return f"{estimate.value:.3g} ({estimate.low:.3g} to {estimate.high:.3g})"


def _findings(findings: Sequence[RuleFinding]) -> Table:
    marks = [(*_WEIGHTS[finding.weight], finding) for finding in findings]
    return labelled((f"{mark} {one.rule}", style, one.text) for mark, style, one in marks)


def _advice(counsel: Counsel) -> Iterator[RenderableType]:
    shown = [one for one in counsel.settings if one.is_worth_it][:SHOWN]
    if shown:
        yield _gains("change", shown)
    if counsel.levers:
        if shown:
            yield Text("")
        yield _gains("what a cost is worth", counsel.levers[:3])
    if shown or counsel.levers:
        yield Text(ENDLESS, style="dim")


def _changes(answer: Answer) -> Iterator[RenderableType]:
    """Yield the line to paste, whole, and the steps that remain beside it."""
    yield Text(changes_head(answer), style="bold")
    yield Text(pasted(answer.changes))
    if answer.new_findings:
        yield _findings(answer.new_findings)
    if answer.by_hand:
        yield Text(f"to mend by hand: {', '.join(one.rule for one in answer.by_hand)}")


def changes_head(answer: Answer) -> str:
    """Return in words the effect of the changes."""
    if not answer.meets_changed:
        return "of the changes that were tried together, these come nearest to the goals"
    return "set together, these meet every goal"


def _gains(head: str, rows: Sequence[Advice]) -> Table:
    table = _table(head, "goals met", "goodput", "cost")
    for one in rows:
        table.add_row(Text(one.what), *(text for text, _ in gain_cells(one)))
    return table


def gain_cells(one: Advice) -> tuple[tuple[str, str], ...]:
    """Return the gains in goals met, goodput and cost, each with the range of its interval."""
    cost = ("not known", "") if one.cost is None else _gain_cell(one.cost, _cost_unit(one.cost))
    return _gain_cell(one.chance), _gain_cell(one.goodput), cost


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
    seen, curve = answer.forecast, answer.curve
    if seen is not None:
        yield "time goes", "dim", where_time_goes(seen)
    if curve is not None:
        low, high = curve.flat_s
        text = f"any interval from {in_s(low)} to {in_s(high)} is within 1 pt of the best"
        if low == high:
            text = f"of those tried, only {in_s(low)} is within 1 pt of the best"
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
    seen = next((a.forecast for a in (answer, *answer.readings) if a.forecast is not None), None)
    return None if seen is None else seen.runs


def _ground(answer: Answer) -> Iterator[tuple[str, str, str]]:
    market, costs = answer.question.market, answer.question.costs
    for one in trace_in_words(answer):
        yield "trace", "dim", one
    every = ""
    if answer.loss_every_s is not None:
        every = f", a loss for the job every {in_s(answer.loss_every_s)}"
    yield "market", "dim", f"{market.name}: {market.mtbf_h:.1f} h per node{every} ({market.source})"
    if costs is not None:
        yield "costs", "dim", costs.source
    if answer.ignored:
        yield "ignored", "yellow", ", ".join(answer.ignored)
    for note in answer.notes:
        yield "note", "yellow", note


def pasted(changes: dict[str, Any]) -> str:
    """Return changes in the form of the command line: one line, even a long one."""
    return " \\\n".join(f"--set {shlex.quote(f'{at}={_value(to)}')}" for at, to in changes.items())


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _table(head: str, *columns: str) -> Table:
    return bare_table(Column(head, overflow="fold"), *numbers(*columns))


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
        yield f"{_cell(begun(answer.would_take))}."
    yield from _readings(answer)
    if answer.forecast is not None:
        yield _table_of(("", "5 %", "50 %", "95 %"), [row[:4] for row in figure_rows(answer)])
        yield "\n".join(_below_figures(answer, answer.forecast))
    yield from _found("what is wrong", answer.findings)
    if answer.ignored:
        yield f"Ignored: {', '.join(answer.ignored)}."
    if answer.changes:
        yield f"{changes_head(answer).capitalize()}:"
        yield f"```\n{pasted(answer.changes)}\n```"
    yield from _found("to look at with the changes", answer.new_findings)
    if answer.by_hand:
        yield f"To mend by hand: {', '.join(f'`{one.rule}`' for one in answer.by_hand)}."
    for held in answer.validation:
        yield f"Compared with {_cell(held.what)}:"
        yield _comparison(held)
    for note in (*trace_in_words(answer), *answer.notes):
        yield f"Note: {_cell(note)}."


def _readings(answer: Answer) -> Iterator[str]:
    if answer.depends:
        for one in answer.readings:
            yield f"{_cell(as_read(one))}."
            yield _table_of(("", "5 %", "50 %", "95 %"), [row[:4] for row in figure_rows(one)])
            yield from _found("what is wrong", own_findings(one, answer))
    elif answer.readings:
        yield _table_of(READINGS_HEAD, readings_rows(answer))


def _below_figures(answer: Answer, seen: Forecast) -> Iterator[str]:
    yield f"Time goes: {where_time_goes(seen)}. "
    yield f"{seen.runs} simulated runs, seed {answer.effort.seed}."
    yield from (f"{note} " for note in figure_notes(answer))
    if (text := border(answer)) is not None:
        yield f"{begun(text)}."


def _found(head: str, findings: Sequence[RuleFinding]) -> Iterator[str]:
    if findings:
        yield _table_of(("setting", head), [(f"`{one.rule}`", one.text) for one in findings])


def _comparison(held: Validation) -> str:
    marked = [("✅" if row.agrees else "❌", *_compared_cells(row)) for row in held.rows]
    rows = [(f"{mark} {name}", *cells) for mark, name, *cells in marked]
    return _table_of(("mean, 95 % interval", "predicted", "measured", "off by"), rows)


def _table_of(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(markdown_table(head, ([_cell(text) for text in row] for row in rows)))


def _cell(text: str) -> str:
    """Return text that neither ends a cell nor opens a tag."""
    plain = on_one_line(text).replace("\\", "\\\\").replace("|", "\\|")
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
    before = _cells_by_name(answer.question, answer.forecast, unit)
    after = None if answer.after is None else _cells_by_name(answer.question, answer.after, unit)
    return tuple(
        (name, *cells, "-" if after is None else after[name][1]) for name, cells in before.items()
    )


READINGS_HEAD = ("by", "answer", "goals met", "goodput", "waiting")


def readings_rows(answer: Answer) -> tuple[tuple[str, ...], ...]:
    """Return the answer by each way to read it, of which one has the figures that are shown.

    Goals that are met are those of the runs that meet the goal met least often.
    """
    return tuple(
        (
            one.read_as + (", as below" if one.question == answer.question else ""),
            one.word,
            f"{min(chance.share for chance in one.forecast.meets.values()):.1%}",
            f"{one.forecast.mean_goodput:.1%}",
            f"{one.forecast.ledger['wait']:.1%}",
        )
        for one in answer.readings
        if one.forecast is not None
    )


def own_findings(one: Answer, answer: Answer) -> tuple[RuleFinding, ...]:
    """Return the findings by one way to read a trace that are not among those by both."""
    return tuple(finding for finding in one.findings if finding not in answer.findings)


def trace_in_words(answer: Answer) -> tuple[str, ...]:
    """Return in words how the nodes of a trace are read: both ways, where none was chosen."""
    asked = [one.question for one in answer.readings or (answer,)]
    words = (in_words(question.market, question.job.pool) for question in asked)
    return tuple(dict.fromkeys(one for one in words if one is not None))


def _cells_by_name(
    question: Question, seen: Forecast, finish_unit: tuple[str, float]
) -> dict[str, tuple[str, str, str]]:
    unit, each = finish_unit
    never = "never" if seen.watched_h is None else f"> {seen.watched_h * each:.0f}"
    least = "≥ " if seen.cut_off.share >= MANY_CUT_OFF else ""
    cells = {
        "goodput": _spread_cells(seen.goodput, "{:.1%}"),
        f"finishes after, {unit}": _spread_cells(seen.finish_h, "{:.1f}", each, unseen=never),
        "restarts": _spread_cells(seen.restarts, f"{least}{{:.0f}}"),
        "steps done again": _spread_cells(seen.lost_steps, f"{least}{{:,.0f}}"),
        "cost, of on-demand": _spread_cells(seen.cost, in_shares),
    }
    if (price := on_demand_price(question)) is not None:
        name = f"cost, {question.known_costs.currency}"
        cells[name] = _spread_cells(seen.cost, "{:,.0f}", price)
    shares = {f"meets: {name}": chance for name, chance in seen.meets.items()}
    for name, of in {**shares, "retries run out": seen.spent}.items():
        cells[name] = f"{of.low:.1%}", f"{of.share:.1%}", f"{of.high:.1%}"
    return cells


def _spread_cells(
    spread: Spread, form: str | Callable[[float], str], times: float = 1.0, *, unseen: str = "-"
) -> tuple[str, str, str]:
    """Return the figures, `unseen` for one that is infinite."""
    say = form.format if isinstance(form, str) else form
    low, middle, high = (
        say(value * times) if math.isfinite(value) else unseen
        for value in (spread.low, spread.middle, spread.high)
    )
    return low, middle, high


def figure_notes(answer: Answer) -> tuple[str, ...]:
    """Return notes for reading the figures, a sentence each."""
    seen, notes = answer.forecast, []
    if seen is None:
        return ()
    if seen.watched_h is not None:
        notes.append(
            f"Runs that had not ended after {in_hours(seen.watched_h)} were cut off there, "
            f"{seen.cut_off.share:.1%} of them; what is counted up to there is marked ≥."
        )
    if seen.cost.high > 1 or seen.finishes.share < 1:
        notes.append(
            "Cost is the price of a run over that of the same training on on-demand nodes; where "
            "a run does not finish, over that of the part of the work that it did: above 100 %, "
            "or in times, it is dearer than on demand."
        )
    if (price := on_demand_price(answer.question)) is not None:
        costs = answer.question.known_costs
        notes.append(
            f"On demand the training costs {costs.currency} {price:,.0f}, at "
            f"{costs.price_per_node_hour:g} per node-hour."
        )
    return tuple(notes)


def border(answer: Answer) -> str | None:
    """Return the strictest goals that would still be met, if all are; None if one is not."""
    seen, need = answer.promised, answer.question.goal.confidence
    if seen is None:
        return None
    changes = "with the changes " if seen is answer.after else ""
    return (
        f"{changes}a deadline below {in_hours(seen.borders['deadline'])}, a budget below "
        f"{in_shares(seen.borders['budget'])} of on-demand or a goodput above "
        f"{seen.borders['goodput']:.1%} would be missed by more than {in_percent(1 - need)} of runs"
    )


def on_demand_price(question: Question) -> float | None:
    """Return the price of the whole training on on-demand nodes; None if no price is given."""
    costs = question.costs
    if costs is None or costs.price_per_node_hour is None:
        return None
    return on_demand_s(question) / 3600 * costs.price_per_node_hour


def finish_unit(seen: Forecast) -> tuple[str, float]:
    """Return the unit of finish times, and its number per hour."""
    known = (seen.finish_h.middle, seen.finish_h.low, seen.watched_h)
    return unit_of(next((h for h in known if h is not None and math.isfinite(h)), 24.0))


def when(seen: Forecast, hours: float) -> str:
    """Return the time at which a share of the runs is done; if not seen, the end of the watch."""
    if math.isfinite(hours):
        return f"after {in_hours(hours)}"
    return "never" if seen.watched_h is None else f"not within {in_hours(seen.watched_h)}"
