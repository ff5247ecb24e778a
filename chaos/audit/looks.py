"""Looks at the baseline's state where a restart went on, and no run had looked before."""

from dataclasses import dataclass, field
from threading import Lock

from chaos.audit.baseline_runs import Clean, CleanRuns
from chaos.check.state import UNLOOKED_AT
from chaos.report.outcome import FinishedRun
from chaos.run.ports import Backend


def are_due(run: FinishedRun) -> bool:
    """Return whether a run could not be judged for want of looks."""
    return any(UNLOOKED_AT in result.summary for result in run.verdict.undecided)


@dataclass
class Looks:
    """The baseline, with a look at the state of every step once a restart went on within an epoch.

    A job that saves when it is given notice goes on from any step. One more clean run does for the
    whole audit, and lanes wait for it.
    """

    clean: Clean
    runs: CleanRuns
    _turn: Lock = field(default_factory=Lock)
    _was_made: bool = False

    def __post_init__(self) -> None:
        self.baseline = self.clean.baseline

    def have_come(self, backend: Backend) -> bool:
        """Make the run if it was not made yet; return whether the baseline has it now."""
        with self._turn:
            if not self._was_made:
                self._was_made = True
                found = self.runs.looked_at_every_step(self.clean, backend)
                self.baseline = found or self.baseline
        return self.baseline is not self.clean.baseline

    def may_come_again(self) -> None:
        """Allow the run to be made once more, if it has shown nothing."""
        self._was_made = self.baseline is not self.clean.baseline
