"""An answer as a terminal of 80 columns shows it."""

from io import StringIO

from rich.console import Console

from chaos.preflight.answer import Answer
from chaos.preflight.render import format_answer


def shown(found: Answer) -> str:
    """Return the text."""
    written = StringIO()
    Console(file=written, width=80, highlight=False).print(
        format_answer(found, page="reports/p.html")
    )
    return written.getvalue()
