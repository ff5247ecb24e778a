"""A command line as a scenario's `args`, word for word."""

import re
from collections.abc import Sequence
from typing import Any

from chaos.model.arguments import Arguments

_NEGATIVE = re.compile(r"-\.?\d")


def args_of(words: Sequence[str]) -> Arguments:
    """Give `--name value` pairs and `--name` flags by name; else the words as they are.

    Spelled out again they are the same words. Names cannot say positional
    arguments, short options and repetitions.
    """
    options: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if not _is_option(word):
            if not name:
                return tuple(words)
            options[name].append(word)
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name or name in options or _is_option(value):
            return tuple(words)
        options[name] = [value] if equals else []
    return {name: _value(values) for name, values in options.items()}


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _NEGATIVE.match(word)


def _value(values: list[str]) -> Any:  # noqa: ANN401 (what YAML can hold)
    if not values:
        return True
    plain = [_number(value) for value in values]
    return plain[0] if len(plain) == 1 else plain


def _number(text: str) -> int | float | str:
    """Give a number where it is spelled as Python spells it, so that it comes back the same."""
    for read in (int, float):
        try:
            number = read(text)
        except ValueError:
            continue
        if str(number) == text and abs(number) < 2**63:
            return number
    return text
