"""How long the least takes that an answer needs, said before any of it is done."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from chaos.audit.budget import MINIMUM_TIMES, Budget, estimate_s
from chaos.audit.note import Note
from chaos.check.result import plural


@dataclass(frozen=True)
class Minimum:
    """So many runs, each about as long as `each_s`, after `spent_s` of clean runs."""

    runs: int
    spent_s: float
    each_s: float
    lanes: int

    @property
    def total_s(self) -> float:
        """How long an audit takes that answers, as far as can be told."""
        return self.spent_s + estimate_s(self.runs, each_s=self.each_s, lanes=self.lanes)

    def fits(self, budget: Budget) -> bool:
        """Say whether it can be done in the time that it may take."""
        return self.total_s <= budget.longest_s

    def notes(self, budget: Budget, command: str) -> Iterator[Note]:
        """Say what does not fit, and what would."""
        if budget.runs is not None and budget.runs < self.runs:
            yield Note(
                kind="warning",
                text=(
                    f"an answer needs {plural(self.runs, 'run')} with a fault; --runs "
                    f"{budget.runs} is fewer, so that this audit can find something wrong, and "
                    "cannot pass"
                ),
            )
        if budget.seconds is not None and not self.fits(budget):
            enough = 10 * math.ceil(self.total_s / MINIMUM_TIMES / 10)
            yield Note(
                kind="warning",
                text=(
                    f"an answer needs {plural(self.runs, 'run')} with a fault, some "
                    f"{self.total_s:.0f} s in all, and {MINIMUM_TIMES} times the time limit are "
                    f"{budget.longest_s:.0f} s: this audit can find something wrong, and cannot "
                    f"pass; this one can: `{with_budget(command, enough)}`; fewer epochs or less "
                    "data, by the script's own arguments after --, make it shorter"
                ),
            )


def with_budget(command: str, seconds: int) -> str:
    """Give the command line of an audit with another time limit."""
    ours, dashes, words = command.partition(" -- ")
    ours = re.sub(r" --budget[= ]\S+", "", ours)
    return f"{ours} --budget {seconds}{dashes}{words}"
