"""A command line as a scenario's `args`, word for word."""

import re
from collections.abc import Sequence
from typing import Any

from chaos.errors import UsageError

PLACE = "the arguments after --"
_NEGATIVE = re.compile(r"-\.?\d")


def args_of(words: Sequence[str]) -> dict[str, Any]:
    """Give `--name value` pairs and `--name` flags as a mapping, in their order.

    Spelled out again they are the same words. Raises `UsageError` for what
    the mapping cannot say: positional arguments, short options, repetitions.
    """
    args: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if not _is_option(word):
            if not name:
                raise _refused(f"'{word}' is a positional argument", "Give it as an option.")
            args[name].append(word)
            continue
        name, has_value, value = _option(word)
        if name in args:
            raise _refused(f"--{name} is given twice", "Give it once.")
        args[name] = [value] if has_value else []
    return {name: _value(values) for name, values in args.items()}


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _NEGATIVE.match(word)


def _option(word: str) -> tuple[str, bool, str]:
    name, equals, value = word.removeprefix("--").partition("=")
    if not word.startswith("--") or not name:
        raise _refused(f"'{word}' is no option of the form --name", "Use the long form.")
    if equals and _is_option(value):
        raise _refused(f"'{word}' has a value that looks like an option", "")
    return name, bool(equals), value


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


def _refused(problem: str, hint: str) -> UsageError:
    how = "A scenario's args are `name: value`, so only `--name value` and `--name` can be said."
    return UsageError(problem, f"{how} {hint}".strip(), place=PLACE)
