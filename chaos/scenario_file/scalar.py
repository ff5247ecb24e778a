"""What one YAML scalar means where only JSON's values are allowed."""

import math
from collections.abc import Callable

TAG = "tag:yaml.org,2002:"
_LARGEST_WHOLE = 2**63 - 1  # what JSON readers and Ray's own settings can hold
_SHOWN = 40


class NotPlainError(Exception):
    """A scalar that JSON has no value for, or that does not fit its tag."""

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem = problem
        self.hint = hint
        super().__init__(problem)


def plain(tag: str, text: str) -> bool | float | str | None:
    """Give the value of a scalar with this (resolved) tag, or raise `NotPlainError`."""
    read = _READERS.get(tag.removeprefix(TAG))
    if read is None:
        raise NotPlainError(f"the tag {spelled(tag)} is not allowed", "Leave it out.")
    return read(text)


def spelled(tag: str) -> str:
    """Give a tag as it is written in a file."""
    return f"!!{tag.removeprefix(TAG)}" if tag.startswith(TAG) else tag


def shortened(text: str) -> str:
    """Give the beginning of a text that is too long to show."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _nothing(_: str) -> None:
    return None


def _truth(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise NotPlainError(f"{shortened(text)} is not a truth value", "Write true or false.")
    return text.lower() == "true"


def _whole(text: str) -> int:
    digits = text.replace("_", "")
    try:
        # Base 0 knows 0x, 0o and 0b but refuses 012, which YAML 1.2 reads as twelve.
        number = int(digits, 10 if digits.lstrip("+-").isdecimal() else 0)
    except ValueError:
        raise NotPlainError(f"{shortened(text)} is not a whole number") from None
    if abs(number) > _LARGEST_WHOLE:
        raise NotPlainError(f"{shortened(text)} is too large", "Quote it if it is meant as text.")
    return number


def _number(text: str) -> float:
    digits = text.replace("_", "").lower()
    if digits.lstrip("+-") in {".inf", ".nan"}:
        digits = "nan"
    try:
        number = float(digits)
    except ValueError:
        raise NotPlainError(f"{shortened(text)} is not a number") from None
    if not math.isfinite(number):
        raise NotPlainError(f"{shortened(text)} is not a finite number", "Leave the key out.")
    return number


def _date(text: str) -> str:
    raise NotPlainError(f"{shortened(text)} is read as a date", f'Quote it: "{shortened(text)}".')


def _text(text: str) -> str:
    """Give the text with JSON's escaped surrogate pairs joined."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise NotPlainError(f"{shortened(ascii(text))} is half of a character") from None


_READERS: dict[str, Callable[[str], bool | float | str | None]] = {
    "null": _nothing,
    "bool": _truth,
    "int": _whole,
    "float": _number,
    "timestamp": _date,
    "str": _text,
    "value": _text,  # a lone `=`
}
