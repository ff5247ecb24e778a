"""Extends the baseline, when first needed, by a clean run that records every step's state."""

from dataclasses import dataclass, field
from threading import Lock

from chaos.audit.baseline_runs import CleanResult, CleanRunner
from chaos.report.outcome import FinishedRun
from chaos.run.ports import Backend


def needs_extended_baseline(run: FinishedRun) -> bool:
    """Return whether a run could not be judged because no clean run recorded a step's state."""
    doubts = (doubt for result in run.verdict.undecided for doubt in result.doubts)
    return any(doubt.kind == "unwatched-step" for doubt in doubts)


@dataclass
class ExtendableBaseline:
    """The baseline, extended when first needed by a clean run that records every step's state.

    The run is needed when a restart resumed at a step whose state no clean run had recorded. It is
    made once per audit; parallel lanes block until it is done.
    """

    clean: CleanResult
    clean_runs: CleanRunner
    _lock: Lock = field(default_factory=Lock)
    _was_tried: bool = False

    def __post_init__(self) -> None:
        self.baseline = self.clean.baseline

    def extend_baseline(self, backend: Backend) -> bool:
        """Make the run if it was not made yet; return whether the baseline has it now."""
        with self._lock:
            if not self._was_tried:
                self._was_tried = True
                extended_baseline = self.clean_runs.build_extended_baseline(self.clean, backend)
                self.baseline = extended_baseline or self.baseline
        return self.baseline is not self.clean.baseline

    def allow_retry(self) -> None:
        """Allow the run to be made once more, if it has shown nothing."""
        self._was_tried = self.baseline is not self.clean.baseline
