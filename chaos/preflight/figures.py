"""The figures of an answer as rows of text, the same in terminal, page and summary."""

import math

from chaos.preflight.answer import Answer
from chaos.preflight.forecast import Spread

MINUTE_S, HOUR_S = 60.0, 3600.0
_LONG = 2.0  # below so many hours or minutes the smaller unit says more

Cells = tuple[str, str, str, str, str]


def unit_of(hours: float) -> tuple[str, float]:
    """Give the unit in which a time is best said, and how many of it an hour has."""
    if hours >= _LONG:
        return "h", 1.0
    return ("min", 60.0) if hours * 60 >= _LONG else ("s", HOUR_S)


def in_hours(hours: float) -> str:
    """Give a time with its unit: `3.4 h`, `12.0 min`, `5.3 s`."""
    unit, each = unit_of(hours)
    return f"{hours * each:.1f} {unit}"


def figure_rows(answer: Answer) -> tuple[Cells, ...]:
    """Give (name with its unit, 5 %, 50 %, 95 %, 50 % with all changes) of each distribution."""
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
    """Give (goal, low, share, high, share with all changes): a share with its 95 % interval."""
    seen, after = answer.forecast, answer.after
    if seen is None:
        return ()
    return tuple(
        (
            f"meets: {name}",
            f"{chance.low:.1%}",
            f"{chance.share:.1%}",
            f"{chance.high:.1%}",
            "-" if after is None else f"{after.meets[name].share:.1%}",
        )
        for name, chance in seen.meets.items()
    )


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
