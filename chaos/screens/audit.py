"""The screen of an audit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from chaos.audit.card import Card
from chaos.audit.parts import list_parts
from chaos.audit.terminal import AuditDisplay
from chaos.report.screen import ConsoleAnnouncer
from chaos.report.terminal_parts import print_parts
from chaos.run.clock import SystemClock

CARD_RECORD = "audit.json"


class AuditScreen(ConsoleAnnouncer):
    """The listener of an audit, on a console; `is_ending`: whether a signal has come to end it."""

    def __init__(self, console: Console, is_ending: Callable[[], bool] = lambda: False) -> None:
        super().__init__(console)
        self._is_ending = is_ending

    @contextmanager
    def follow(self, folder: Path) -> Iterator[AuditDisplay]:
        """Show the progress; publish what was found even if the audit is broken off."""
        try:
            with AuditDisplay(self._console, SystemClock(), is_ending=self._is_ending) as display:
                yield display
        except BaseException as error:
            file = folder / CARD_RECORD
            if file.exists():
                end_reason = "interrupted" if isinstance(error, KeyboardInterrupt) else "broken off"
                head = f"{end_reason}: what was found until then"
                self._console.print(Text(head, style="bold yellow"), soft_wrap=True)
                self.publish_card(Card.from_json(file.read_bytes()), folder)
            raise

    def publish_card(self, card: Card, folder: Path) -> None:
        """Print the card; `folder`: that of its audit."""
        del folder
        print_parts(list_parts(card), self._console)
