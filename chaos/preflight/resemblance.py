"""Which known format a line of an unreadable trace resembles, and what to do about it."""

import re

KNOWN = (
    "Known are Bamboo's events (`milliseconds,add,node1`) and count series "
    '(`2021-12-11, 11:11:30, 55`), Parcae\'s lines (`[0, "add", {"nodes": [...]}]`) and '
    'SkyPilot\'s JSON (`{"metadata": {"gap_seconds": 300}, "data": [4, 4, 3]}`).'
)
_RESEMBLES = (
    (
        re.compile(r"-?\d+(\.\d+)?\s*[;\t|]\s*(add|remove)\b"),
        "It resembles Bamboo's events with another separator: put commas between the columns.",
    ),
    (
        re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?\S*\s*[,;\t]"),
        (
            "It resembles a count series: write the date and the time as two columns, "
            "`2021-12-11, 11:11:30, 55`."
        ),
    ),
    (
        re.compile(r"\d{4}-\d\d-\d\d\s*[;\t]"),
        "It resembles a count series with another separator: put commas between the columns.",
    ),
    (
        re.compile(r"\d{9,13}(\.\d+)?\s*[,;\t]\s*\d+\s*$"),
        (
            "It resembles a count series with times since 1970: write date and time, "
            "`2021-12-11, 11:11:30, 55`."
        ),
    ),
    (
        re.compile(r"-?\d+(\.\d+)?\s*,"),
        "It resembles Bamboo's events: three columns, milliseconds, `add` or `remove`, and a node.",
    ),
    (
        re.compile(r"(?i)[^\d]*(time|date|stamp)[^\d]*[,;\t]"),
        "It looks like a row of headings: delete it.",
    ),
    (
        re.compile(r"[\[{]"),
        (
            "It resembles Parcae's lines, each a list of milliseconds, what, and "
            '`{"nodes": [...]}`, or SkyPilot\'s JSON with `metadata` and `data`.'
        ),
    ),
)


def resembled(line: str) -> str:
    """Give what a line resembles and how to mend it, else all that is known."""
    text = line.strip()
    return next((hint for pattern, hint in _RESEMBLES if pattern.match(text)), KNOWN)
