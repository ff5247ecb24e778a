"""The one maker of consoles: what is printed is text, and nothing else.

Square brackets are no markup and `:names:` no pictures. Whatever is printed,
whoever wrote it: control characters are written out, characters that the
stream cannot hold are escaped, GitHub finds no commands, and a reader who has
gone away ends nothing.
"""

import codecs
import os
from collections.abc import Iterable
from typing import IO, Any, Literal

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from chaos.report.harmless import harmless, without_commands
from chaos.run.ci import on_github


def screen(
    *,
    stderr: bool = False,
    quiet: bool = False,
    file: IO[str] | None = None,
    width: int | None = None,
    color_system: Literal["auto"] | None = "auto",
    record: bool = False,
) -> Console:
    """Return a console on stdout, unless told otherwise."""
    return _Screen(
        stderr=stderr,
        quiet=quiet,
        file=file,
        width=width,
        color_system=color_system,
        record=record,
        markup=False,
        emoji=False,
        highlight=False,
    )


class _Screen(Console):
    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - rich's own
        super().__init__(**settings)
        self._is_read_by_github = on_github(os.environ)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return the segments of anything, each safe to write; rich's own controls pass."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else self._safe(segment)

    def on_broken_pipe(self) -> None:
        """Say nothing more: that nobody reads on is no failure."""
        self.quiet = True

    def _safe(self, segment: Segment) -> Segment:
        text = self._encodable(harmless(segment.text))
        if self._is_read_by_github:
            text = without_commands(text)
        return segment if text == segment.text else Segment(text, segment.style)

    def _encodable(self, text: str) -> str:
        if text.isascii():
            return text
        encoding = self.encoding
        return text.encode(encoding, _IN_ASCII).decode(encoding)


def _in_ascii(error: UnicodeError) -> tuple[str | bytes, int]:
    """Write our marks as one letter, so that tables stay tables, and all else escaped."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    foreign = error.object[error.start : error.end]
    escaped = (_MARKS.get(c) or c.encode("ascii", "backslashreplace").decode() for c in foreign)
    return "".join(escaped), error.end


_MARKS = {"✓": "+", "✗": "x", "·": ".", "…": "~", "→": ">", "≥": ">"}
_IN_ASCII = "chaos-in-ascii"
codecs.register_error(_IN_ASCII, _in_ascii)
