"""The seeds of every scenario: `3` means 0, 1 and 2; `5-7` means 5, 6 and 7."""

import argparse
import re

_RANGE = re.compile(r"(\d+)-(\d+)")


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds in order; refuse a text that is neither a count nor a range."""
    if text.isdecimal() and int(text) > 0:
        return tuple(range(int(text)))
    found = _RANGE.fullmatch(text)
    if found and int(found[1]) <= int(found[2]):
        return tuple(range(int(found[1]), int(found[2]) + 1))
    raise argparse.ArgumentTypeError(f"a number from 1 on, or a range such as 5-7, not {text!r}")
