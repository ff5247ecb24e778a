"""Refusals of a request's values that no request has, whatever else it asks for."""

import math
from collections.abc import Collection
from numbers import Integral, Real

from chaos.errors import RequestError


def require_choice(field: str, value: object, choices: Collection[str]) -> None:
    """Raise `RequestError` for a value that is none of the choices; None is left out."""
    if value is not None and value not in choices:
        raise _build_error(field, value, ", ".join(choices))


def require_count(field: str, value: object, minimum: int) -> None:
    """Raise `RequestError` for what is no whole number from the minimum on; None is left out."""
    is_count = isinstance(value, Integral) and not isinstance(value, bool)
    if value is not None and (not is_count or value < minimum):  # type: ignore[operator]
        raise _build_error(field, value, f"a whole number from {minimum}")


def require_number(field: str, value: object) -> None:
    """Raise `RequestError` for what is no number from 0; None is left out."""
    is_number = isinstance(value, Real) and 0 <= float(value) < math.inf
    if value is not None and not is_number:
        raise _build_error(field, value, "a number from 0")


def require_switch(field: str, value: object) -> None:
    """Raise `RequestError` for what is neither True nor False."""
    if not isinstance(value, bool):
        raise _build_error(field, value, "True or False")


def _build_error(field: str, value: object, expected: str) -> RequestError:
    return RequestError(
        "it is {expected}; got {value!r}", field=field, expected=expected, value=value
    )
