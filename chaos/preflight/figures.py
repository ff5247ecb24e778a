"""The figures of an answer as rows of text, the same in terminal, page and summary."""

import math

from chaos.preflight.answer import Answer
from chaos.preflight.forecast import Chance, Spread
from chaos.preflight.words import unit_of

Cells = tuple[str, str, str, str, str]


def figure_rows(answer: Answer) -> tuple[Cells, ...]:
    """Give (name with its unit, 5 %, 50 %, 95 %, 50 % with the changes) of each distribution."""
    seen, after = answer.forecast, answer.after
    if seen is None:
        return ()
    unit, each = ("h", 1.0) if seen.finish_h is None else unit_of(seen.finish_h.middle)
    kinds = (
        ("goodput", "goodput", "{:.1%}", 1.0),
        (f"finishes after, {unit}", "finish_h", "{:.1f}", each),
        ("restarts", "restarts", "{:.0f}", 1.0),
        ("steps done again", "lost_steps", "{:,.0f}", 1.0),
        ("cost, of on-demand", "cost", "{:.0%}", 1.0),
    )
    return tuple(
        (
            name,
            *_cells(getattr(seen, field), form, times),
            _cells(getattr(after, field, None), form, times)[1],
        )
        for name, field, form, times in kinds
    )


def goal_rows(answer: Answer) -> tuple[Cells, ...]:
    """Give (what, low, share, high, share with the changes) of runs, each with its 95 % interval.

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


def _shares(name: str, chance: Chance, after: Chance | None) -> Cells:
    low, share, high = (f"{value:.1%}" for value in (chance.low, chance.share, chance.high))
    return name, low, share, high, "-" if after is None else f"{after.share:.1%}"


def ranged(times_h: Spread) -> tuple[str, str, str]:
    """Give 5, 50 and 95 % of a time in one unit, which the last two carry."""
    unit, each = unit_of(times_h.middle)
    low, middle, high = (v * each for v in (times_h.low, times_h.middle, times_h.high))
    return f"{low:.1f}", f"{middle:.1f} {unit}", f"{high:.1f} {unit}"


def _cells(spread: Spread | None, form: str, times: float) -> tuple[str, str, str]:
    if spread is None:
        return ("-", "-", "-")
    low, middle, high = (
        form.format(v * times) if math.isfinite(v) else "-"
        for v in (spread.low, spread.middle, spread.high)
    )
    return low, middle, high
