"""`chaos run --soak`: one seed after another until the time is up, and what grows meanwhile."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from chaos.extensions.lab.soak_result import (
    SOAK,
    SoakResult,
    SoakRun,
    build_soak_run,
    describe_soak,
)
from chaos.model.event import RunEnded
from chaos.report.outcome import FinishedRun, SuiteRow
from chaos.run.clock import Clock, elapsed_seconds
from chaos.run.process_size import ProcessSize, process_size
from chaos.run.record_file import write_text


@dataclass
class Soak:
    """A soak of `limit_s` seconds, from when it is made."""

    limit_s: float
    clock: Clock
    _runs: list[SoakRun] = field(default_factory=list, init=False)
    _own_sizes: list[ProcessSize] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._start_ns = self.clock.now_ns()

    @property
    def is_finished(self) -> bool:
        """Whether no further run is begun."""
        return self._seconds >= self.limit_s

    def record_run(self, run: FinishedRun) -> None:
        """Keep the figures of a run, and the size of this process.

        A baseline is passed over, and a run that was interrupted, which is a part of one.
        """
        is_interrupted = any(event.interrupted for _, event in run.history.select_events(RunEnded))
        if run.baseline is not None and not is_interrupted:
            self._runs.append(build_soak_run(run))
            if (size := process_size()) is not None:
                self._own_sizes.append(size)

    def shrink_row(self, row: SuiteRow) -> SuiteRow:
        """Return a row as expected without its diagnosis, which would fill the memory in hours."""
        if row.verdict is None or row.standing != "expected":
            return row
        return replace(row, verdict=row.verdict.replace(diagnosis=()))

    def finish(self, folder: Path) -> tuple[str, ...]:
        """Write the figures into the suite's folder; return them in words."""
        result = SoakResult(
            seconds=self._seconds, runs=tuple(self._runs), own=tuple(self._own_sizes)
        )
        write_text(folder / SOAK, result.model_dump_json(indent=2))
        return tuple(describe_soak(result))

    @property
    def _seconds(self) -> float:
        return elapsed_seconds(self._start_ns, self.clock)
