"""What moves on a terminal, and the few lines that stay elsewhere."""

from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

# Where lines stay, one is written each time another of this many parts is done.
PARTS = 10


class Moving:
    """A context in which progress is shown; `stays`: leaving it leaves the last state there."""

    def __init__(self, console: Console, *, stays: bool = False) -> None:
        self._console = console
        self._stays = stays
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            # Without a refresh thread it moves when there is news, and only then.
            self._live = Live(console=self._console, auto_refresh=False, transient=not self._stays)
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

    @property
    def moves(self) -> bool:
        """Whether something moves here; lines stay where nothing does."""
        return self._live is not None

    def move(self, shown: RenderableType) -> None:
        """Show something in place of what was shown before, where something moves."""
        if self._live is not None:
            self._live.update(shown, refresh=True)

    def write(self, line: Text) -> None:
        """Write a line that stays."""
        self._console.print(line, soft_wrap=True)


class MovingLine(Moving):
    """One line that moves; leaving takes it away."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._said: tuple[str, int] | None = None

    def say(self, line: Text, *, stage: str, done: int, total: int) -> None:
        """Show a line; where lines stay, only as a stage begins and as parts of it are done."""
        if self.moves:
            self.move(line)
            return
        said = (stage, PARTS * done // max(1, total))
        if said != self._said:
            self._said = said
            self.write(line)
