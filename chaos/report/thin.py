"""Fewer points that show the same line: the extremes of every stretch stay."""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def thinned(
    rows: Sequence[T], limit: int, *, value: Callable[[T], float], keep: Callable[[T], bool]
) -> list[T]:
    """Give at most about `limit` rows in order, and every row that `keep` asks for.

    Of each stretch the lowest and the highest stay, so no spike is lost, and so
    does the first row without a number. The first and the last row stay too.
    """
    if len(rows) <= limit:
        return list(rows)
    stretch = math.ceil(len(rows) / max(1, limit // 2))
    chosen = {0, len(rows) - 1}
    chosen |= {place for place, row in enumerate(rows) if keep(row)}
    for start in range(0, len(rows), stretch):
        places = range(start, min(start + stretch, len(rows)))
        numbers = [place for place in places if math.isfinite(value(rows[place]))]
        if len(numbers) < len(places):
            chosen.add(next(p for p in places if not math.isfinite(value(rows[p]))))
        if numbers:
            chosen.add(min(numbers, key=lambda place: value(rows[place])))
            chosen.add(max(numbers, key=lambda place: value(rows[place])))
    return [rows[place] for place in sorted(chosen)]
