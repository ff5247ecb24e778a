"""Counts, shares, lists and errors, for sentences."""

import math
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def plural(count: int, noun: str, plural_noun: str = "") -> str:
    """Return a count with its noun: `1 step`, `2 steps`, `2 losses`."""
    return f"{count} {noun}" if count == 1 else f"{count} {plural_noun or noun + 's'}"


def join_names(names: Sequence[str]) -> str:
    """Return names as a list in a sentence: "a, b and c"."""
    *leading_names, last_name = names
    return f"{', '.join(leading_names)} and {last_name}" if leading_names else last_name


def suggest_name(word: str, known_names: Iterable[str], otherwise: str = "") -> str:
    """Return `Did you mean NAME?` for a name in other letters, and `otherwise` for any other."""
    close_names = get_close_matches(word, [*known_names], n=1)
    return f"Did you mean {close_names[0]}?" if close_names else otherwise


def capitalize_first(text: str) -> str:
    """Return a text that begins with a capital."""
    return text[:1].upper() + text[1:]


def format_sentence(text: str) -> str:
    """Return a text with a capital and a full stop."""
    return capitalize_first(text).removesuffix(".") + "."


def describe_omitted(count: int, location: str = "in the report") -> str:
    """Return the line that stands for what a list leaves out, and where the whole of it is."""
    return f"and {count} more, {location}"


_COLOR_CODES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")  # the colours of a terminal


def strip_colors(text: str) -> str:
    """Return a text without the colours of a terminal."""
    return _COLOR_CODES.sub("", text)


def shorten_text(text: str, max_length: int = 300) -> str:
    """Return words of others without colours, at most so many letters, and cut between words."""
    text = strip_colors(text)
    if len(text) <= max_length:
        return text
    head = text[: max_length - 1]
    end = max(head.rfind(" "), head.rfind("\n"))
    return f"{head[: end if end > max_length // 2 else max_length - 2].rstrip()} …"


Z_95 = 1.959963984540054  # the 97.5 % quantile of the standard normal distribution


def wilson_interval(count: int, total: int) -> tuple[float, float]:
    """Return the 95 % score interval of a share; (0, 1) if nothing was counted.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference,
    Journal of the American Statistical Association 22 (1927) 209-212. It holds for few
    cases and for shares of 0 and 1, where the usual plus-minus has no width.
    """
    if total == 0:
        return 0.0, 1.0
    share, z2 = count / total, Z_95**2
    centre = (share + z2 / (2 * total)) / (1 + z2 / total)
    root = math.sqrt(share * (1 - share) / total + z2 / (4 * total * total))
    half = Z_95 / (1 + z2 / total) * root
    # At both ends the bound is the end itself, which floating point may miss slightly.
    low = 0.0 if count == 0 else max(0.0, centre - half)
    high = 1.0 if count == total else min(1.0, centre + half)
    return low, high


def describe_ranks(numbers: Iterable[int], noun: str = "rank") -> str:
    """Return ranks, or epochs, by name: `rank 0`, `ranks 0 and 1`, `ranks 0, 2 and 3`."""
    texts = [str(number) for number in sorted(set(numbers))]
    if len(texts) == 1:
        return f"{noun} {texts[0]}"
    return f"{noun}s {join_names(texts)}"


def extract_last_line(message: str) -> str:
    """Return the last line of an error's text, the most specific one of a traceback."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1] if lines else "it gave no reason"
