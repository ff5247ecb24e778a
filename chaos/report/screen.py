"""Text of others, such as names and messages of a job, made safe to show.

A record from elsewhere may hold escape sequences for a terminal, characters that
reverse the order of letters, or commands for CI.
"""

import codecs
import io
import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from chaos.run.ci import is_github_actions

LABEL_WIDTH = 9  # so that the lines and the commands of a result begin in one column
WIDE = 100_000  # columns of a log, whose lines are not broken
# C0 but tab and newline, DEL and C1; line separators, bidirectional controls, lone surrogates.
_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
# GitHub reads `::error …` at the beginning of a line, and the older `##[error]` anywhere in it.
_COMMAND = re.compile(r"^(\s*):(?=:)", re.MULTILINE)
_TRAILING_SPACES = re.compile(r" +$", re.MULTILINE)
_OLD_COMMAND = re.compile(r"##(?=\[)")


def escape_controls(text: str) -> str:
    r"""Return a text with its control characters escaped, as `\u001b`; line breaks stay.

    JSON stays JSON with the same meaning.
    """
    return text if text.isprintable() else _CONTROL_CHARACTERS.sub(_escape_character, text)


def join_lines(text: str) -> str:
    """Return a harmless text without line breaks."""
    return escape_controls(" ".join(text.split()))


def escape_commands(text: str) -> str:
    """Return a text in which GitHub finds no workflow command."""
    return _OLD_COMMAND.sub(r"#\\#", _COMMAND.sub(r"\1\\:", text))


def _escape_character(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


def build_console(**settings: Any) -> Console:  # noqa: ANN401 - those of rich's console
    """Return a console, by default on stdout."""
    return _Screen(**settings, markup=False, emoji=False, highlight=False)


def build_program_console(*, quiet: bool) -> Console:
    """Return the console of a call from a program or a notebook, on stderr."""
    # A notebook's stderr says that it is a terminal, and obeys no cursor; and as HTML each line
    # would be a block of its own. There, lines stay.
    is_original_stderr = sys.stderr is sys.__stderr__
    force_terminal = None if is_original_stderr else False
    return build_console(
        stderr=True, quiet=quiet, force_jupyter=False, force_terminal=force_terminal
    )


class ConsoleAnnouncer:
    """Lines and warnings on a console, which breaks none of them."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)

    def warn(self, text: str) -> None:
        self._console.print(Text.assemble(("warning: ", "yellow"), text), soft_wrap=True)


def render_plain(print_page: Callable[[Console], None], *, width: int = WIDE) -> str:
    """Return what is printed, without colours and, unless `width` is less, without line breaks."""
    buffer = io.StringIO()
    print_page(build_console(file=buffer, width=width, color_system=None))
    return buffer.getvalue().removesuffix("\n")


def build_bare_table(*columns: Column | str, gap: int = 2) -> Table:
    """Return an empty table without lines."""
    return Table(*columns, box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")


def build_number_columns(*names: str) -> list[Column]:
    """Return columns of numbers, aligned right."""
    return [Column(name, justify="right", no_wrap=True) for name in names]


def build_labelled_table(
    rows: Iterable[tuple[str, str, str]], label_width: int = LABEL_WIDTH
) -> Table:
    """Return a table of (label, its style, a text that may be long)."""
    label_column = Column(no_wrap=True, min_width=label_width)
    grid = Table.grid(label_column, Column(overflow="fold"), padding=(0, 2, 0, 0))
    for label, style, text in rows:
        grid.add_row(Text(label, style=style), Text(text))
    return grid


class _Screen(Console):
    """A console; without a terminal it has no width: no line is broken, filled up or cut."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - rich's own
        super().__init__(**settings)
        if not self.is_terminal and settings.get("width") is None:
            self.size = ConsoleDimensions(WIDE, height=25)
        self._is_read_by_github = is_github_actions(os.environ)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of a renderable, each safe to write; rich's own controls pass."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else self._make_safe(segment)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        text = super()._render_buffer(buffer)
        return text if self.is_terminal else _TRAILING_SPACES.sub("", text)

    def on_broken_pipe(self) -> None:
        """Print nothing more: a closed pipe is no failure."""
        self.quiet = True

    def _make_safe(self, segment: Segment) -> Segment:
        text = self._make_encodable(escape_controls(segment.text))
        if self._is_read_by_github:
            text = escape_commands(text)
        return segment if text == segment.text else Segment(text, segment.style)

    def _make_encodable(self, text: str) -> str:
        if text.isascii():
            return text
        encoding = self.encoding
        return text.encode(encoding, _ASCII_ERRORS).decode(encoding)


def _encode_ascii(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return chaos's own marks as one letter, so that tables stay aligned, and others escaped."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unencodable = error.object[error.start : error.end]
    escaped = (
        _MARKS.get(character) or character.encode("ascii", "backslashreplace").decode()
        for character in unencodable
    )
    return "".join(escaped), error.end


_MARKS = {"✓": "+", "✗": "x", "·": ".", "…": "~", "→": ">", "≥": ">"}
_ASCII_ERRORS = "chaos-in-ascii"
codecs.register_error(_ASCII_ERRORS, _encode_ascii)
