"""Lists of lives: how long each node was there, without the time at which it was lost."""

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from chaos.errors import UsageError
from chaos.extensions.preflight.capacity import Floats
from chaos.extensions.preflight.estimate import Estimate
from chaos.extensions.preflight.event_logs import RETURN_S
from chaos.extensions.preflight.market import Doubt, Exponential, LossNotice, Market
from chaos.extensions.preflight.trace import FEW, RESAMPLES, NodeLife, choose_law
from chaos.extensions.preflight.trace_columns import (
    COUNTED,
    UNITS,
    HeadedTable,
    TraceError,
    Unit,
    find_cell_kind,
    parse_headed_table,
    parse_heading_unit,
)
from chaos.wording import plural

ASSUMPTION = "notice of 120 s in 95 % of losses and a price of 0.35 are assumed, not in the source"
_RETURN_NOTE = (
    f"when a lost node was replaced is not in it: read as after {RETURN_S / 60:.0f} min "
    "(--set market.away_h=H)"
)
_LIFE_HEAD = re.compile(r"(?i)life|lived|uptime|\bage\b")
_END_HEAD = re.compile(r"(?i)preempt(?!ibl)|\blost\b|_lost|interrupt(?!ibl)|ended|is_over|terminat")
_GOING_HEAD = re.compile(r"(?i)censor|alive|still|running|ongoing")
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse_lives(name: str, lines: Sequence[str], unit: Unit | None) -> tuple[NodeLife, ...] | None:
    """Return the lives of a table that has a column of them; None for any other text.

    A column such as `preempted` says which of them a loss ended, and one such as `censored` which
    of them none did; without one all were ended. Losses with their times are no list of lives.
    """
    table = parse_headed_table(lines)
    column = None if table is None else _find_life_column(table)
    if table is None or column is None:
        return None
    end_column = _find_end_column(table, column)
    if not _has_only_lives(table, column, end_column):
        return None
    stated_unit = unit or parse_heading_unit(table.heads[column])
    if stated_unit is None:
        raise UsageError(
            f"the unit of `{table.heads[column]}` is not known",
            f"Say it: --trace-unit {', '.join(UNITS)}.",
            location=name,
        )
    is_inverse = end_column is not None and _GOING_HEAD.search(table.heads[end_column]) is not None
    return tuple(
        NodeLife(
            _parse_hours(name, line, cells[column], UNITS[stated_unit]),
            end_column is None or _parse_truth(name, line, cells[end_column]) != is_inverse,
        )
        for line, cells in table.rows
    )


def _find_life_column(table: HeadedTable) -> int | None:
    """Return the one column of numbers that is of lives."""
    columns = [
        n
        for n, head in enumerate(table.heads)
        if _LIFE_HEAD.search(head) and find_cell_kind(table.rows[0][1][n]) == "number"
    ]
    return columns[0] if len(columns) == 1 else None


def _find_end_column(table: HeadedTable, life_column: int) -> int | None:
    """Return the column that says whether a loss ended a life, which is one of truths.

    A column of other texts is returned as well, so that they are refused and not passed over.
    """
    first = table.rows[0][1]
    columns = [
        n
        for n, head in enumerate(table.heads)
        if n != life_column and (_END_HEAD.search(head) or _GOING_HEAD.search(head))
    ]
    truths = [n for n in columns if first[n].lower() in _TRUTHS]
    texts = [n for n in columns if find_cell_kind(first[n]) == "text"]
    return next(iter([*truths, *texts]), None)


def _has_only_lives(table: HeadedTable, life_column: int, end_column: int | None) -> bool:
    """Return whether a table has no counts of nodes beside its lives, and no times of losses."""
    first = table.rows[0][1]
    for n, head in enumerate(table.heads):
        kind = find_cell_kind(first[n])
        if n in (life_column, end_column) or kind == "text":
            continue
        is_count = kind == "number" and COUNTED.search(head) is not None
        is_time = kind != "number" or _END_HEAD.search(head) is not None
        if is_count or (is_time and end_column is None):
            return False
    return True


def _parse_hours(name: str, line: int, text: str, unit_s: float) -> float:
    if find_cell_kind(text) != "number" or float(text) <= 0:
        problem = f"a life is a time above 0, got {text}"
        raise TraceError(name, line, problem, "Mend or delete the row.")
    return float(text) * unit_s / 3600


def _parse_truth(name: str, line: int, text: str) -> bool:
    if text.lower() not in _TRUTHS:
        problem = f"whether a life was ended by a loss is true or false, got {text}"
        raise TraceError(name, line, problem, "Mend or delete the row.")
    return _TRUTHS[text.lower()]


def reject_options(name: str, options: Mapping[str, object]) -> None:
    """Raise `UsageError` if one of the options is given of which a list of lives knows nothing."""
    option = next((option for option, value in options.items() if value), None)
    if option is not None:
        problem = "a list of lives says of each node how long it was there, and nothing of others"
        raise UsageError(problem, f"Leave {option} out.", location=name)


def fit_lives_market(
    name: str, lives: Sequence[NodeLife], *, notice: LossNotice, price_ratio: float, seed: int = 0
) -> tuple[Market, tuple[str, ...]]:
    """Return the market whose nodes live as those of a list, and notes on what is not in it.

    Raises `UsageError` if no life in it was ended by a loss.
    """
    ended = np.array([float(life.is_over) for life in lives])
    hours = np.array([life.hours for life in lives])
    if not ended.any():
        hint = "A market cannot be learnt from it: give a longer list, or a --market by name."
        raise UsageError("no node is lost in it", hint, location=name)
    rng = np.random.Generator(np.random.PCG64(seed))
    picks = rng.integers(0, len(lives), (RESAMPLES, len(lives)))
    with np.errstate(divide="ignore"):
        means = hours[picks].sum(axis=1) / ended[picks].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975], method="inverted_cdf").tolist()
    mtbf = Estimate(float(hours.sum() / ended.sum()), low, high)
    law = choose_law(lives)
    market = Market(
        name=f"fitted to {name.rsplit('/', maxsplit=1)[-1]}",
        lifetime=law.weibull or Exponential(mtbf_h=mtbf.value),
        away_h=RETURN_S / 3600,
        doubt=Doubt(losses=max(1.0, round(mtbf.value / mtbf.low, 4))),
        notice=notice,
        price_ratio=price_ratio,
        source=f"fitted to {plural(len(lives), 'life', 'lives')} of nodes",
    )
    return market, (_describe_lives(mtbf, ended), law.why, *_list_notes(ended), ASSUMPTION)


def _describe_lives(mtbf: Estimate, ended: Floats) -> str:
    upper_end = f"to {mtbf.high:.2f}" if math.isfinite(mtbf.high) else "or more"
    losses = plural(int(ended.sum()), "loss", "losses")
    return f"{losses}: {mtbf.value:.2f} h per node (95 %: {mtbf.low:.2f} {upper_end})"


def _list_notes(ended: Floats) -> tuple[str, ...]:
    going = plural(int((1 - ended).sum()), "life", "lives")
    notes = [
        "each row is read as the whole life of a node, which a loss ended"
        if ended.all()
        else f"{going} had not ended, and count as longer",
        "losses of several nodes at once are not in a list of lives: none is taken",
        _RETURN_NOTE,
    ]
    if ended.sum() < FEW:
        losses = plural(int(ended.sum()), "loss", "losses")
        notes.append(f"only {losses}: the intervals are wide")
    return tuple(notes)
