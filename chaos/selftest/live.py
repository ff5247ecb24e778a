"""A self-test as it goes on."""

from rich.text import Text

from chaos.report.live import MovingLine
from chaos.selftest.terminal import place, what
from chaos.selftest.trial import Judged


class SelftestDisplay(MovingLine):
    """Shows how far a self-test of `total` runs is."""

    total = 0

    def show(self, done: int, row: Judged) -> None:
        """Take in one more run."""
        self.say(line(done, self.total, row), stage="selftest", done=done, total=self.total)


def line(done: int, total: int, row: Judged) -> Text:
    """Say in one line how far it is, and what came of the last run."""
    text = Text.assemble(("selftest", "bold"), f"  {done}/{total}  ")
    mark, style = ("✗", "red") if row.is_worth_a_look else ("✓", "green")
    said = f" ({what(row)})" if row.is_worth_a_look else ""
    text.append(mark, style).append(f" {row.exhibit}: {place(row)}{said}")
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
