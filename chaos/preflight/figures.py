"""The figures of an answer as rows of text, the same in terminal, page and summary."""

import math

from chaos.preflight.answer import Answer
from chaos.preflight.estimate import Chance, Spread
from chaos.preflight.forecast import Forecast, on_demand_s
from chaos.preflight.format import in_hours, in_percent, unit_of
from chaos.preflight.question import Question

Cells = tuple[str, str, str, str, str]
MANY_CUT_OFF = 0.05  # with fewer runs cut off, the figures of 5 to 95 % are those of whole runs


def figure_rows(answer: Answer) -> tuple[Cells, ...]:
    """Return (name with its unit, 5 %, 50 %, 95 %, 50 % with the changes) of each distribution."""
    seen, after = answer.forecast, answer.after
    if seen is None:
        return ()
    unit, each = finish_unit(seen)
    kinds = [
        ("goodput", "goodput", "{:.1%}", 1.0),
        (f"finishes after, {unit}", "finish_h", "{:.1f}", each),
        ("restarts", "restarts", "{:.0f}", 1.0),
        ("steps done again", "lost_steps", "{:,.0f}", 1.0),
        ("cost, of on-demand", "cost", "{:.0%}", 1.0),
    ]
    dear = on_demand_price(answer.question)
    if dear is not None:
        kinds.append((f"cost, {answer.question.costs.currency}", "cost", "{:,.0f}", dear))  # type: ignore[union-attr]
    return tuple(
        (
            name,
            *_cells(seen, field, form, times),
            "-" if after is None else _cells(after, field, form, times)[1],
        )
        for name, field, form, times in kinds
    )


def goal_rows(answer: Answer) -> tuple[Cells, ...]:
    """Return (what, low, share, high, share with the changes) of runs, each a 95 % interval.

    Every goal, and the share in which retries run out.
    """
    seen, after = answer.forecast, answer.after
    if seen is None:
        return ()
    goals = (
        (f"meets: {name}", chance, None if after is None else after.meets[name])
        for name, chance in seen.meets.items()
    )
    spent = ("retries run out", seen.spent, None if after is None else after.spent)
    return tuple(_shares(*row) for row in (*goals, spent))


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
            "a run does not finish, over that of the part of the work that it did: above 100 % "
            "it is dearer than on demand."
        )
    dear, costs = on_demand_price(answer.question), answer.question.costs
    if dear is not None and costs is not None:
        notes.append(
            f"On demand the training costs {costs.currency} {dear:,.0f}, at "
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
        f"{seen.borders['budget']:.0%} of on-demand or a goodput above "
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


def finish_cells(seen: Forecast) -> tuple[str, str, str]:
    """Return 5, 50 and 95 % of the finish times, in the unit of them all."""
    return _cells(seen, "finish_h", "{:.1f}", finish_unit(seen)[1])


def _shares(name: str, chance: Chance, after: Chance | None) -> Cells:
    low, share, high = (f"{value:.1%}" for value in (chance.low, chance.share, chance.high))
    return name, low, share, high, "-" if after is None else f"{after.share:.1%}"


def _cells(seen: Forecast, field: str, form: str, times: float) -> tuple[str, str, str]:
    spread: Spread = getattr(seen, field)
    counted = field in ("restarts", "lost_steps") and seen.cut_off.share >= MANY_CUT_OFF
    low, middle, high = (
        _cell(value * times, form, seen if field == "finish_h" else None, times)
        for value in (spread.low, spread.middle, spread.high)
    )
    return (f"≥ {low}", f"≥ {middle}", f"≥ {high}") if counted else (low, middle, high)


def _cell(value: float, form: str, finish: Forecast | None, times: float) -> str:
    """Return a figure; for a finish that was not seen, the end of the watch."""
    if math.isfinite(value):
        return form.format(value)
    if finish is None:
        return "-"
    return "never" if finish.watched_h is None else f"> {finish.watched_h * times:.0f}"
