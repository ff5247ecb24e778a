"""Reported values, one by one: what a job reports may be nested, and may be no number."""

from collections.abc import Iterator
from typing import TypeAlias

Value: TypeAlias = float | str | bool | None


def number(value: object) -> float | None:
    """Give a reported value as a number, None if it is none; JSON lacks three of them."""
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return None


def flat(value: object, name: str = "") -> Iterator[tuple[str, Value]]:
    """Give every value below a report's metrics under its dotted name: `val.acc`, `hist.0`."""
    if isinstance(value, dict):
        parts = [(str(key), below) for key, below in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(str(index), below) for index, below in enumerate(value)]
    else:
        yield name, _single(value)
        return
    for part, below in parts:
        yield from flat(below, f"{name}.{part}" if name else part)


def is_below(name: str, others: tuple[str, ...]) -> bool:
    """Say whether a dotted name is one of the others, or part of what one of them names."""
    return any(name == other or name.startswith(f"{other}.") for other in others)


def _single(value: object) -> Value:
    if value is None or isinstance(value, bool):
        return value
    found = number(value)
    return str(value) if found is None else found
