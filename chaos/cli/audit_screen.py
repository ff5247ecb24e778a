"""The screen of `chaos audit`, and the documents that its card is written as."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console

from chaos.audit.brief import build_answer_line, list_brief_parts
from chaos.audit.card import Card
from chaos.audit.page import build_annotations
from chaos.audit.parts import list_parts
from chaos.cli import signals
from chaos.cli.documents import Document, Form
from chaos.report.markdown_parts import render_markdown_parts
from chaos.report.screen import build_console
from chaos.report.terminal_parts import print_parts
from chaos.run.ci import add_to_step_summary, is_github_actions
from chaos.screens.audit import CARD_RECORD, AuditScreen

FILES: dict[Form, str] = {"json": CARD_RECORD, "html": "card.html", "junit": "junit.xml"}


class AuditCommandScreen(AuditScreen):
    """The listener of the command, which also writes the document that was asked for."""

    def __init__(self, console: Console, document: Document, *, is_verbose: bool = False) -> None:
        """`console`: a quiet one shows the answer alone, in a line."""
        super().__init__(console, signals.has_signal, is_verbose=is_verbose)
        self._document = document

    def publish_card(self, card: Card, folder: Path) -> None:
        """Print the card, and write it as the document that was asked for."""
        if is_github_actions(os.environ):
            self._console.file.writelines(f"{line}\n" for line in build_annotations(card))
        parts = [*list_parts(card)]
        files = _build_file_readers(folder)
        files["github"] = lambda: "\n".join(build_annotations(card))
        screen_parts = None if self._is_verbose else [*list_brief_parts(card)]
        self._document.report(parts, files, console=self._console, screen_parts=screen_parts)
        if self._console.quiet:
            console = build_console(stderr=self._document.takes_stdout)
            print_parts([build_answer_line(card)], console)
        add_to_step_summary(os.environ, render_markdown_parts(parts))


def _build_file_readers(folder: Path) -> dict[Form, Callable[[], str]]:
    return {form: partial((folder / name).read_text, "utf-8") for form, name in FILES.items()}
