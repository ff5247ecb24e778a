"""An audit as it goes on: one line that moves on a terminal, a few plain lines elsewhere."""

from collections.abc import Sequence

from rich.text import Text

from chaos.audit.budget import Progress
from chaos.audit.note import Note
from chaos.audit.struck import StruckRun
from chaos.report.moving import MovingLine

_LAMPS = {"valid": ("✓", "green"), "invalid": ("✗", "red"), "unknown": ("?", "yellow")}


class AuditDisplay(MovingLine):
    """Shows an audit's progress; `show` is given each news once."""

    def show(self, progress: Progress) -> None:
        """Take in how far the audit is."""
        self.say(line(progress), stage=progress.stage, done=progress.done, total=progress.total)

    def tell(self, notes: Sequence[Note]) -> None:
        """Write what the runs without a fault have shown, before any other is begun."""
        for note in notes:
            self.write(note_line(note))


def line(progress: Progress) -> Text:
    """Say in one line how far an audit is."""
    text = Text.assemble((progress.stage, "bold"), f"  {progress.done}/{progress.total}")
    if progress.wrong:
        text.append(f"  {progress.wrong} failed")
    if progress.left_s is not None and progress.done < progress.total:
        text.append(f"  {progress.left_s:.0f} s left")
    if progress.last is not None:
        text.append("  ").append_text(_last(progress.last))
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def note_line(note: Note) -> Text:
    """Give a note as a line that stays."""
    return Text.assemble(
        (f"{note.kind}: ", "yellow" if note.kind == "warning" else "dim"), note.text
    )


def _last(run: StruckRun) -> Text:
    mark, style = _LAMPS[run.validity]
    if run.is_right and not run.resumed:
        mark, style = "o", "dim"  # it began anew, and shows nothing of a resume
    return Text.assemble((mark, style), f" {run.group}: {run.name}")
