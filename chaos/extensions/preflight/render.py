"""The parts of an answer, for every report of it, and its figures as rows of text."""

import json
import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from chaos.extensions.preflight.advice import Advice, SettingsAdvice
from chaos.extensions.preflight.answer import Answer
from chaos.extensions.preflight.estimate import (
    Estimate,
    Quantiles,
    choose_time_unit,
    format_hours,
    format_percent,
    format_price_share,
    format_seconds,
)
from chaos.extensions.preflight.forecast import Forecast, find_reference_node_s
from chaos.extensions.preflight.market import describe_trace_nodes
from chaos.extensions.preflight.question import Question
from chaos.extensions.preflight.rules.rule import RuleFinding
from chaos.extensions.preflight.validation import FigureComparison, Validation
from chaos.extensions.preflight.verdict import Word
from chaos.report.outcome import Tone
from chaos.report.parts import (
    Cell,
    Commands,
    Figures,
    Headline,
    LabelledLines,
    Paragraph,
    ReportLine,
    ReportPart,
    ResultTable,
    Section,
    Sign,
    limit_media,
)
from chaos.wording import capitalize_first, join_names, plural

SHOWN, LEVERS_SHOWN = 5, 3
ENDLESS = (
    "each by itself, with retries without limit but in the rows of budgets; cost is in parts, or "
    "times, of that on demand"
)
LEAST_SHOWN = 0.0005

LOOKS: dict[Word, tuple[Tone, Sign]] = {
    "go": ("good", Sign("✓", "green", "✅")),
    "go with changes": ("open", Sign("!", "yellow", "⚠️")),
    "no-go": ("bad", Sign("✗", "bold red", "❌")),
    "cannot tell": ("calm", Sign("?", "bold blue", "❔")),
}
_WEIGHTS: dict[str, tuple[Tone, str]] = {
    "stops": ("bad", "✗"),
    "costs": ("open", "!"),
    "advice": ("calm", "·"),
}


def list_parts(
    answer: Answer, *, page: str | None = None, drawings: Sequence[ReportPart] = ()
) -> Iterator[ReportPart]:
    """Yield the verdict, its figures, the findings, the changes, and the evidence.

    `page`: the path of the page; `drawings`: what only the page has.
    """
    yield from _list_headlines(answer)
    yield from _list_markets(answer)
    yield from _list_readings(answer)
    if answer.forecast is not None:
        glance = "below each figure: 5 to 95 % of the simulated runs, or of a share its interval"
        yield limit_media("page", parts=[Figures(facts(answer)), Paragraph(glance, "quiet")])
        figures: list[ReportPart] = [_build_figure_table(answer)]
        figures += (Paragraph(note, "quiet") for note in figure_notes(answer))
        yield Section(figures, heading="What is to be expected", name="figures")
    if answer.findings:
        lines = _build_finding_lines(answer.findings)
        yield Section([lines], heading="Settings to look at", name="settings")
    if answer.counsel is not None:
        yield from _list_advice(answer.counsel)
    if answer.changes or answer.by_hand:
        yield _build_changes(answer)
    yield from drawings
    yield from map(_build_validation, answer.validation)
    costs = limit_media("page", parts=_list_cost_tables(answer))
    ground: list[ReportPart] = [LabelledLines([*_list_grounds(answer)]), costs]
    if page is not None:
        ground.append(Commands([("report", page)]))
    yield Section(ground, heading="What this rests on", name="ground")


def _list_headlines(answer: Answer) -> Iterator[ReportPart]:
    """Yield the verdict; in Markdown it stands among other texts, and says what it is about."""
    (tone, sign), question = LOOKS[answer.word], answer.question
    job, market = question.job, question.market
    loss_interval = ""
    if answer.loss_every_s is not None:
        loss_interval = f"; a loss for the job every {format_hours(answer.loss_every_s / 3600)}"
    on_market = f"on the market {market.name}"
    if answer.markets:
        names = join_names([item.question.market.name for item in answer.markets])
        on_market, known_text = "on a market that is not known", f"{names} stand in for it"
    else:
        known_text = f"{market.mtbf_h:.1f} h per node{loss_interval}"
    setting = (
        f"{plural(job.nodes, 'node')} and {job.spare_nodes} spare {on_market} ({known_text}), "
        f"{job.steps:,} steps, a checkpoint every {plural(job.checkpoint_every_steps, 'step')}"
    )
    notes = [answer.would_take] if answer.would_take else []
    headline = Headline(tone, answer.word, "", answer.why, notes, [setting], sign)
    yield limit_media("terminal", "page", parts=[headline])
    job_line = Paragraph(f"{question.preflight} {on_market}")
    yield limit_media("markdown", parts=[replace(headline, subject="preflight"), job_line])


def as_read(answer: Answer) -> str:
    """Return the answer by one way to read a question, in a line."""
    return f"{answer.read_as}: {answer.word}: {answer.why}"


def _list_readings(answer: Answer) -> Iterator[ReportPart]:
    """Yield the answers by each way to read a trace: with all figures where they differ."""
    if answer.depends:
        for number, reading in enumerate(answer.readings):
            findings = _build_finding_lines(own_findings(reading, answer))
            parts = [_build_figure_table(reading), findings]
            yield Section(parts, title=as_read(reading), name=f"reading-{number}")
    elif answer.readings:
        rows = readings_rows(answer)
        table = ResultTable(("by", "answer", "goals met", "goodput", "waiting"), rows, range(2, 5))
        yield Section([table], heading="How the question is read", name="readings")


def _list_markets(answer: Answer) -> Iterator[ReportPart]:
    """Yield the answers on known markets side by side, where none was given."""
    rows = market_rows(answer)
    if not rows:
        return
    names = [item.question.market.name for item in answer.markets]
    table = ResultTable(("on the market", *names), rows, range(1, len(names) + 1))
    yield Section([table], heading="On three known markets", name="markets")
    for number, item in enumerate(answer.markets):
        if item.forecast is not None:
            title = f"{item.question.market.name}: {item.word}: {item.why}"
            parts = [_build_figure_table(item), _build_finding_lines(own_findings(item, answer))]
            yield Section(parts, title=title, name=f"market-{number}", media=["page"])


def _build_figure_table(answer: Answer) -> ResultTable:
    """Return the forecast as rows of 5, 50 and 95 %, with the median after the changes."""
    columns = ["", "5 %", "50 %", "95 %", *(["changed"] if answer.after is not None else [])]
    rows = [row[: len(columns)] for row in figure_rows(answer)]
    return ResultTable(columns, rows, range(1, len(columns)))


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


def _build_validation(validation: Validation) -> Section:
    meaning = (
        "means over the runs with their 95 % intervals; ✓ where what was measured lies in the "
        "interval that was predicted; inside: runs within 5 to 95 % of single runs, 90 % due"
    )
    columns = ("figure", "predicted", "measured", "off by", "inside")
    table = ResultTable(columns, [_compare_cells(row) for row in validation.rows], range(1, 5))
    notes = [ReportLine("open", "note", note) for note in validation.notes]
    explanation = limit_media("page", "markdown", parts=[Paragraph(meaning, "quiet")])
    title = f"Compared with {validation.what}"
    return Section([explanation, table, LabelledLines(notes)], title=title)


def _compare_cells(row: FigureComparison) -> tuple[Cell | str, ...]:
    name = f"{row.figure}, {row.unit}" if row.unit else row.figure
    tone: Tone = "good" if row.agrees else "bad"
    return (
        Cell(name, tone, has_sign=True, aside=plural(row.runs, "run")),
        interval(row.predicted),
        interval(row.measured),
        f"{row.difference:+.1%}",
        "-" if row.inside is None else f"{row.inside:.0%}",
    )


def interval(estimate: Estimate) -> str:
    """Return a mean and its 95 % interval."""
    return f"{estimate.value:.3g} ({estimate.low:.3g} to {estimate.high:.3g})"


def _build_finding_lines(findings: Sequence[RuleFinding]) -> LabelledLines:
    lines = []
    for finding in findings:
        tone, mark = _WEIGHTS[finding.weight]
        aside = f"{finding.reason} Source: {finding.source}."
        text = finding.text if finding.in_figures else f"{finding.text} (not in the figures)"
        lines.append(ReportLine(tone, f"{mark} {finding.rule}", text, aside=aside))
    return LabelledLines(lines)


def _list_advice(counsel: SettingsAdvice) -> Iterator[ReportPart]:
    """Yield what is worth most, and on a page all that differs for sure."""
    worthwhile = [advice for advice in counsel.settings if advice.is_worth_it][:SHOWN]
    gains = {"change": worthwhile, "what a cost is worth": counsel.levers[:LEVERS_SHOWN]}
    tables = [_build_gain_table(head, rows) for head, rows in gains.items() if rows]
    notes = [Paragraph(ENDLESS, "quiet")] if tables else []
    yield limit_media("terminal", parts=[*tables, *notes])
    lead = (
        "each by itself, simulated with the same losses; in percentage points, or in times the "
        "price on demand, with 95 % intervals. A difference whose interval holds 0 is unsure, and "
        "a change with no sure difference is left out. Beside the budgets themselves, changes are "
        "judged with retries without limit"
    )
    spares = counsel.spares if len(counsel.spares) > 1 else ()
    sure_gains = {
        head: [advice for advice in rows if advice.is_sure]
        for head, rows in {
            "change": counsel.settings,
            "how many spares": spares,
            "what a cost is worth": counsel.levers,
        }.items()
    }
    page_parts: list[ReportPart] = [Paragraph(lead, "quiet")]
    page_parts += (_build_gain_table(head, rows) for head, rows in sure_gains.items() if rows)
    yield Section(page_parts, heading="What a change buys", name="advice", media=["page"])


def _build_changes(answer: Answer) -> Section:
    """Return the line to paste, whole, and the steps that remain beside it."""
    parts: list[ReportPart] = []
    if answer.changes:
        parts.append(Commands([("", format_set_options(answer.changes))], is_long=True))
    parts += (Paragraph(note, "quiet") for note in _describe_endless_budgets(answer))
    parts.append(_build_finding_lines(answer.new_findings))
    if answer.by_hand:
        rules = ", ".join(finding.rule for finding in answer.by_hand)
        parts.append(Paragraph(f"to mend by hand: {rules}"))
    title = capitalize_first(changes_head(answer)) if answer.changes else ""
    return Section(parts, title=title, heading=title or "What to change", name="changes")


def _describe_endless_budgets(answer: Answer) -> Iterator[str]:
    """Yield that -1 has no end, and what torchrun takes in its place."""
    if -1 not in answer.changes.values():
        return
    yield "-1 is without limit"
    if answer.changes.get("settings.max_restarts") == -1 and answer.after is not None:
        yield (
            "torchrun takes no -1: give --max-restarts a number far above "
            f"{answer.after.restarts.high:.0f}, the restarts that 95 % of the runs do with"
        )


def changes_head(answer: Answer) -> str:
    """Return in words the effect of the changes."""
    if not answer.meets_changed:
        return "of the changes that were tried together, these come nearest to the goals"
    return "set together, these meet every goal"


def _build_gain_table(head: str, rows: Sequence[Advice]) -> ResultTable:
    """Return the gains in goals met, goodput and cost, each with the range of its interval."""
    columns = (head, "goals met", "goodput", "cost")
    return ResultTable(columns, [(row.what, *gain_cells(row)) for row in rows], range(1, 4))


def gain_cells(advice: Advice) -> tuple[Cell, Cell, Cell]:
    """Return the gains in goals met, goodput and cost, each with the range of its interval."""
    cost = (
        Cell("not known")
        if advice.cost is None
        else _build_gain_cell(advice.cost, _cost_unit(advice.cost))
    )
    return _build_gain_cell(advice.chance), _build_gain_cell(advice.goodput), cost


def _cost_unit(gain: Estimate) -> Literal["pt", "times"]:
    return "times" if max(abs(gain.low), abs(gain.high)) >= 1 else "pt"


def _build_gain_cell(gain: Estimate, unit: Literal["pt", "times"] = "pt") -> Cell:
    """Return a difference of shares, or "unsure", and its range."""
    times = 100 if unit == "pt" else 1
    value, low, high = (
        "0" if text in ("+0.0", "-0.0") else text
        for text in (f"{times * share:+,.1f}" for share in (gain.value, gain.low, gain.high))
    )
    if value == "0":
        return Cell(value, aside=f"({low} to {high})")
    text = f"{value} {unit}" if gain.excludes_zero else "unsure"
    return Cell(text, aside=f"({low} to {high} {unit})")


def _list_grounds(answer: Answer) -> Iterator[ReportLine]:
    """Yield what the figures rest on, and the limits of the answer."""
    if not answer.markets:
        yield from _list_forecast_lines(answer)
    market, costs = answer.question.market, answer.question.costs
    yield from (ReportLine("calm", "trace", note) for note in describe_trace_readings(answer))
    loss_interval = ""
    if answer.loss_every_s is not None:
        loss_interval = f", a loss for the job every {format_seconds(answer.loss_every_s)}"
    text = f"{market.name}: {market.mtbf_h:.1f} h per node{loss_interval} ({market.source})"
    if not answer.markets:
        yield ReportLine("calm", "market", text)
    if costs is not None:
        yield ReportLine("calm", "costs", costs.source)
    if answer.ignored:
        yield ReportLine("open", "ignored", ", ".join(answer.ignored))
    yield from (ReportLine("open", "note", note) for note in answer.notes)
    if (runs := simulated_runs(answer)) is not None:
        text = f"{runs:,} simulated runs, seed {answer.effort.seed}"
        aside = "What the model does not know is in docs/notes/0006-preflight.md."
        yield ReportLine("calm", "rests on", text, aside=aside)


def _list_forecast_lines(answer: Answer) -> Iterator[ReportLine]:
    if answer.forecast is not None:
        yield ReportLine("calm", "time goes", describe_time_use(answer.forecast))
    if answer.curve is not None:
        low, high = map(format_seconds, answer.curve.flat_s)
        text = f"any interval from {low} to {high} is within 1 pt of the best"
        if low == high:
            text = f"of those tried, only {low} is within 1 pt of the best"
        yield ReportLine("calm", "interval", text)
    if (goals := border(answer)) is not None:
        yield ReportLine("calm", "border", goals)


def _list_cost_tables(answer: Answer) -> Iterator[ResultTable]:
    if answer.question.costs is not None:
        costs = answer.question.costs.model_dump()
        steps = ("step", "save", "upload", "detect", "teardown", "schedule", "start", "restore")
        rows = [(f"{step}_s", f"{costs[f'{step}_s']:.4g}") for step in steps]
        yield ResultTable(("cost", "seconds"), rows, range(1, 2))


def simulated_runs(answer: Answer) -> int | None:
    """Return the runs that the figures are from; None without figures."""
    forecast = next(
        (
            item.forecast
            for item in (answer, *answer.readings, *answer.markets)
            if item.forecast is not None
        ),
        None,
    )
    return None if forecast is None else forecast.runs


def format_set_options(changes: dict[str, Any]) -> str:
    """Return changes in the form of the command line: one line, even a long one."""
    return " \\\n".join(
        f"--set {shlex.quote(f'{key}={_value(value)}')}" for key, value in changes.items()
    )


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


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


def market_rows(answer: Answer) -> tuple[tuple[str, ...], ...]:
    """Return the answer and the middle figures on each known market, where none was given."""
    shown_answers = [
        next((way for way in item.readings if way.question == item.question), item)
        for item in answer.markets
    ]
    forecasts = [item.forecast for item in shown_answers if item.forecast is not None]
    if not forecasts:
        return ()
    unit = finish_unit(forecasts[0])
    columns = [
        {} if item.forecast is None else _cells_by_name(item.question, item.forecast, unit)
        for item in shown_answers
    ]
    names = dict.fromkeys(name for cells in columns for name in cells)
    figures = [(name, *(cells.get(name, "---")[1] for cells in columns)) for name in names]
    losses = [
        "-" if item.loss_every_s is None else format_hours(item.loss_every_s / 3600)
        for item in shown_answers
    ]
    return (
        ("answer", *(item.word for item in answer.markets)),
        ("a loss for the job every", *losses),
        *figures,
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
    has_limit = math.isfinite(question.settings.start_limit_s)
    if has_limit and question.settings.limit_requeues:
        cells["queued again"] = _spread_cells(forecast.requeues, "{:.0f}")
    shares = {f"meets: {name}": chance for name, chance in forecast.meets.items()}
    shares["retries run out"] = forecast.spent
    if has_limit:
        shares["ended by the limit"] = forecast.timed_out
    for name, share_interval in shares.items():
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


def facts(answer: Answer) -> tuple[tuple[str, str, str], ...]:
    """Return the figures at the top, each a name, the figure, and its range."""
    forecast = answer.forecast
    if forecast is None:
        return ()
    unit, rows = finish_unit(forecast)[0], {name: cells for name, *cells in figure_rows(answer)}
    low, _, high, _ = rows[f"finishes after, {unit}"]
    costs = [name for name in rows if name.startswith("cost")]
    ranged = [
        (name, middle, low if low == high else f"{low} to {high}")
        for name in ("goodput", *costs, "restarts")
        for low, middle, high, _ in [rows[name]]
    ]
    shares = [
        (name, f"{chance.share:.1%}", f"{chance.low:.1%} to {chance.high:.1%}")
        for name, chance in (
            ("runs that finish", forecast.finishes),
            ("retries run out", forecast.spent),
        )
    ]
    middle = describe_finish_time(forecast, forecast.finish_h.middle).removeprefix("after ")
    finish = ("finishes after", middle, _describe_range(low, high, unit))
    return (ranged[0], finish, *ranged[1:], *shares)


def _describe_range(low: str, high: str, unit: str) -> str:
    if "never" in (low, high):
        return low if low == high else f"{low} {unit} to {high}"
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"
