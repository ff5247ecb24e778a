"""An audit as it goes on: one line that moves on a terminal, a few plain lines elsewhere."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from chaos.audit.budget import Progress
from chaos.audit.struck import StruckRun

# Where lines stay, one is written each time another of this many parts is done.
PARTS = 10
_LAMPS = {"valid": ("✓", "green"), "invalid": ("✗", "red"), "unknown": ("?", "yellow")}


class AuditDisplay:
    """Shows an audit's progress; `show` is given each news once."""

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

    def show(self, progress: Progress) -> None:
        """Take in how far the audit is."""
        if self._live is not None:
            self._live.update(line(progress), refresh=True)
            return
        said = (progress.stage, PARTS * progress.done // max(1, progress.total))
        if said != self._said:
            self._said = said
            self._console.print(line(progress), soft_wrap=True)


def line(progress: Progress) -> Text:
    """Say in one line how far an audit is."""
    text = Text.assemble((progress.stage, "bold"), f"  {progress.done}/{progress.total}")
    if progress.left_s is not None and progress.done < progress.total:
        text.append(f"  {progress.left_s:.0f} s left")
    if progress.last is not None:
        text.append("  ").append_text(_last(progress.last))
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _last(run: StruckRun) -> Text:
    mark, style = _LAMPS[run.validity]
    return Text.assemble((mark, style), f" {run.group}: {run.name}")
