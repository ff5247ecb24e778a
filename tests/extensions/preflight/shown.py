"""An answer as a terminal of 80 columns shows it, and as Markdown does."""

from io import StringIO

from rich.console import Console

from chaos.extensions.preflight.answer import Answer
from chaos.extensions.preflight.render import list_parts
from chaos.report.markdown_parts import render_markdown_parts
from chaos.report.terminal_parts import print_parts


def shown(found: Answer) -> str:
    """Return the text of a terminal."""
    written = StringIO()
    console = Console(file=written, width=80, highlight=False)
    print_parts(list_parts(found, page="reports/p.html"), console)
    return written.getvalue()


def in_markdown(found: Answer) -> str:
    """Return the Markdown."""
    return render_markdown_parts(list_parts(found))
