"""The screen of an audit, and the documents that its card is written as."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.text import Text

from chaos.audit.card import Card
from chaos.audit.page import build_annotations, render_markdown
from chaos.audit.terminal import AuditDisplay, print_card
from chaos.cli import signals
from chaos.cli.documents import Document, Form
from chaos.report.screen import ConsoleAnnouncer, render_plain
from chaos.run.ci import add_to_step_summary, is_github_actions
from chaos.run.clock import SystemClock

FILES: dict[Form, str] = {"json": "audit.json", "html": "card.html", "junit": "junit.xml"}


class AuditScreen(ConsoleAnnouncer):
    """The listener of an audit, on a console; `publish_card` prints and writes what came of it."""

    def __init__(self, console: Console, document: Document) -> None:
        super().__init__(console)
        self._document = document

    @contextmanager
    def follow(self, folder: Path) -> Iterator[AuditDisplay]:
        """Show the progress; print and write what was found even if the audit is broken off."""
        try:
            with AuditDisplay(
                self._console, SystemClock(), is_ending=signals.has_signal
            ) as display:
                yield display
        except BaseException as error:
            file = folder / FILES["json"]
            if file.exists():
                end_reason = "interrupted" if isinstance(error, KeyboardInterrupt) else "broken off"
                head = f"{end_reason}: what was found until then"
                self._console.print(Text(head, style="bold yellow"), soft_wrap=True)
                self.publish_card(Card.from_json(file.read_bytes()), folder)
            raise

    def publish_card(self, card: Card, folder: Path) -> None:
        """Print the card, and write it as the document that was asked for."""
        if is_github_actions(os.environ):
            self._console.file.writelines(f"{line}\n" for line in build_annotations(card))
        if not self._document.takes_stdout:
            print_card(card, self._console)
        self._document.write(
            {
                "text": lambda: render_plain(partial(print_card, card)),
                "md": lambda: render_markdown(card),
                "github": lambda: "\n".join(build_annotations(card)),
                **_build_file_readers(folder),
            }
        )
        add_to_step_summary(os.environ, render_markdown(card))


def _build_file_readers(folder: Path) -> dict[Form, Callable[[], str]]:
    return {form: partial((folder / name).read_text, "utf-8") for form, name in FILES.items()}
