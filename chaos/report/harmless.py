"""Text of others, such as names and messages of a job, made safe to show.

A record that a stranger gave may hold what a terminal obeys (escape sequences),
what turns the order of letters round, or what CI takes for a command.
"""

import re

# C0 but tab and newline, DEL and C1; line separators, bidirectional controls, lone surrogates.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# GitHub reads `::error …` at the beginning of a line, and the older `##[error]` anywhere in it.
_COMMAND = re.compile(r"^(\s*):(?=:)", re.MULTILINE)
_OLD_COMMAND = re.compile(r"##(?=\[)")


def harmless(text: str) -> str:
    r"""Return a text whose control characters are written out, as `\u001b`; lines stay lines.

    JSON stays JSON, and means the same.
    """
    return text if text.isprintable() else _OBEYED.sub(_written_out, text)


def on_one_line(text: str) -> str:
    """Return a harmless text without line breaks."""
    return harmless(" ".join(text.split()))


def without_commands(text: str) -> str:
    """Return a text in which GitHub finds no workflow command."""
    return _OLD_COMMAND.sub(r"#\\#", _COMMAND.sub(r"\1\\:", text))


def _written_out(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"
