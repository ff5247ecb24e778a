"""One line that moves on a terminal, and a few lines that stay elsewhere."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

# Where lines stay, one is written each time another of this many parts is done.
PARTS = 10


class MovingLine:
    """A context in which progress is shown; leaving it takes the line away."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._said: tuple[str, int] | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
            self._live = None

    def say(self, line: Text, *, stage: str, done: int, total: int) -> None:
        """Show a line; where lines stay, only as a stage begins and as parts of it are done."""
        if self._live is not None:
            self._live.update(line, refresh=True)
            return
        said = (stage, PARTS * done // max(1, total))
        if said != self._said:
            self._said = said
            self._console.print(line, soft_wrap=True)
