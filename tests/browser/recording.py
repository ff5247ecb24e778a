"""A picture of a terminal: what a command printed, line after line, as SVG without scripts."""

import io
import re

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

COLUMNS = 80
FIRST_S, LINE_S = 0.8, 0.05  # until the first line of the output, and from line to line
_FONTS = re.compile(r"@font-face \{\{.*?\}\}\n", re.DOTALL)  # rich has them fetched
# Each line comes with its delay; who wants no motion sees all of it at once.
_COMES = """
    @keyframes comes {{ from {{ opacity: 0 }} to {{ opacity: 1 }} }}
    .{unique_id}-matrix text {{ animation: comes 1ms both }}
    @media (prefers-reduced-motion: reduce) {{ .{unique_id}-matrix text {{ animation: none }} }}
    {styles}"""
FORMAT = _FONTS.sub("", CONSOLE_SVG_FORMAT).replace("{styles}", _COMES.strip(), 1)
FORMAT = FORMAT.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
_LINE = re.compile(r'(<text class="[^"]*-r\d+" x="[^"]*" y="([\d.]+)")')


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
    svg = console.export_svg(title="chaos", code_format=FORMAT, unique_id="chaos")
    rows = sorted({float(y) for _, y in _LINE.findall(svg)})
    return _LINE.sub(lambda found: f'{found[1]} style="animation-delay: {_at(rows, found)}s"', svg)


def _at(rows: list[float], found: re.Match[str]) -> float:
    row = rows.index(float(found[2]))
    return round(FIRST_S + LINE_S * row, 2) if row else 0


def paragraphs(printed: str, *begins: str) -> str:
    """Return the first paragraph of an output for each beginning, and a mark for the rest."""
    plain = Text.from_ansi(printed).plain.split("\n\n")
    parts = dict(zip(plain, printed.split("\n\n"), strict=True))
    chosen = (next(part for part in plain if part.startswith(begin)) for begin in begins)
    return "\n\n".join(parts[part] for part in chosen) + "\n…"
