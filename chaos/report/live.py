"""A run as it goes on: a panel where there is a terminal, plain lines where there is none."""

from collections.abc import Sequence
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from chaos.model.history import Entry
from chaos.report.moving import Moving
from chaos.report.progress import Progress, Strike, advance, is_notable
from chaos.report.sentence import sentence

_LAMPS = {
    "ok": ("✓ ok", "green"),
    "fail": ("✗ fail", "red"),
    "info": ("? info", "yellow"),
}


class Display(Moving):
    """Shows one run while it goes on; `show` is given each new event once."""

    def __init__(
        self,
        console: Console,
        *,
        title: str,
        total_epochs: int | None = None,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__(console, stays=True)
        self.progress = Progress()
        self._title = title
        self._total_epochs = total_epochs
        self._steps_per_epoch = steps_per_epoch

    def __enter__(self) -> Self:
        super().__enter__()
        if self.moves:
            self.move(self._panel())
        else:
            self.write(Text(self._title))
        return self

    def show(self, entries: Sequence[Entry]) -> None:
        """Take in new events, in order."""
        for entry in entries:
            self.progress = advance(self.progress, entry)
            if not self.moves and is_notable(entry):
                self.write(Text(f"{self.progress.elapsed_s:7.1f} s  {sentence(entry.what)}"))
        if self.moves and entries:
            self.move(self._panel())

    def _panel(self) -> RenderableType:
        return panel(
            self.progress,
            title=self._title,
            total_epochs=self._total_epochs,
            steps_per_epoch=self._steps_per_epoch,
        )


def panel(
    progress: Progress, *, title: str, total_epochs: int | None, steps_per_epoch: int | None
) -> RenderableType:
    """Draw a progress: where training is, and the faults so far."""
    attempt = "no attempt yet" if progress.attempt is None else f"attempt {progress.attempt}"
    commits = f"{progress.commits} commit{'' if progress.commits == 1 else 's'}"
    head = Text.assemble((title, "bold"), f"  {progress.elapsed_s:.1f} s", overflow="ellipsis")
    state = Text(f"  {attempt} · {progress.ended or progress.state} · {commits}", style="dim")
    lines: list[RenderableType] = [head, state]
    if progress.place is not None:
        lines.append(_bar(progress.place, total_epochs, steps_per_epoch))
    lines += [_strike(strike) for strike in progress.strikes]
    return Group(*lines)


def _bar(
    place: tuple[int, int], total_epochs: int | None, steps_per_epoch: int | None
) -> RenderableType:
    epoch, step = place
    of_epochs = f"/{total_epochs - 1}" if total_epochs else ""
    of_steps = f"/{steps_per_epoch}" if steps_per_epoch else ""
    where = Text(f"  epoch {epoch}{of_epochs} · step {step}{of_steps}")
    if not total_epochs or not steps_per_epoch:
        return where
    row = Table.grid(padding=(0, 2))
    total = total_epochs * steps_per_epoch
    done = min(epoch * steps_per_epoch + step, total)
    row.add_row(where, ProgressBar(total=total, completed=done, width=30))
    return row


def _strike(strike: Strike) -> Text:
    word, style = _LAMPS.get(strike.status or "", ("… under way", "yellow"))
    line = Text.assemble(f"  op {strike.op}: {strike.what}  ", (word, style))
    return line.append(f"  {strike.detail}") if strike.detail else line
