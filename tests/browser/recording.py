"""A picture of a terminal: what a command printed, as SVG without scripts and without motion."""

import io
import re

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

COLUMNS = 80
_FONTS = re.compile(r"@font-face \{\{.*?\}\}\n", re.DOTALL)  # rich has them fetched
FORMAT = _FONTS.sub("", CONSOLE_SVG_FORMAT).replace(
    "Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace"
)


def recording(command: str, printed: str) -> str:
    """Return the picture of a command and its output, which has the escapes of a terminal."""
    console = Console(
        record=True,
        width=COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    console.print(Text.assemble(("$ ", "dim"), (command, "bold")))
    console.print(Text.from_ansi(printed), soft_wrap=True)
    return console.export_svg(title="chaos", code_format=FORMAT, unique_id="chaos")


def paragraphs(printed: str, *begins: str) -> str:
    """Return the first paragraph of an output for each beginning, and a mark for the rest."""
    plain = Text.from_ansi(printed).plain.split("\n\n")
    parts = dict(zip(plain, printed.split("\n\n"), strict=True))
    chosen = (next(part for part in plain if part.startswith(begin)) for begin in begins)
    return "\n\n".join(parts[part] for part in chosen) + "\n…"
