"""An audit as it goes on: one line that moves on a terminal, a few plain lines elsewhere."""

from rich.text import Text

from chaos.audit.budget import Progress
from chaos.audit.struck import StruckRun
from chaos.report.moving import MovingLine

_LAMPS = {"valid": ("✓", "green"), "invalid": ("✗", "red"), "unknown": ("?", "yellow")}


class AuditDisplay(MovingLine):
    """Shows an audit's progress; `show` is given each news once."""

    def show(self, progress: Progress) -> None:
        """Take in how far the audit is."""
        self.say(line(progress), stage=progress.stage, done=progress.done, total=progress.total)


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
