"""`chaos run --soak`: one seed after another until the time is up, and what grows meanwhile."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from chaos.model.event import RunEnded
from chaos.report.outcome import FinishedRun, SuiteRow
from chaos.report.soak import SOAK, SoakResult, SoakRun, in_words, soak_run
from chaos.run.clock import Clock, seconds_since
from chaos.run.process_size import ProcessSize, process_size
from chaos.run.record_file import write_text


@dataclass
class Soak:
    """A soak of `limit_s` seconds, from when it is made."""

    limit_s: float
    clock: Clock
    _runs: list[SoakRun] = field(default_factory=list, init=False)
    _own: list[ProcessSize] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._start_ns = self.clock.now_ns()

    @property
    def is_over(self) -> bool:
        """Whether no further run is begun."""
        return self._seconds >= self.limit_s

    def note(self, run: FinishedRun) -> None:
        """Keep the figures of a run, and the size of this process.

        A baseline is passed over, and a run that was interrupted, which is a part of one.
        """
        is_part = any(ended.interrupted for _, ended in run.history.of(RunEnded))
        if run.baseline is not None and not is_part:
            self._runs.append(soak_run(run))
            if (size := process_size()) is not None:
                self._own.append(size)

    def kept(self, row: SuiteRow) -> SuiteRow:
        """Return a row as expected without its diagnosis, which would fill the memory in hours."""
        if row.verdict is None or row.standing != "expected":
            return row
        return replace(row, verdict=row.verdict.model_copy(update={"diagnosis": ()}))

    def finish(self, folder: Path) -> tuple[str, ...]:
        """Write the figures into the suite's folder; return them in words."""
        result = SoakResult(seconds=self._seconds, runs=tuple(self._runs), own=tuple(self._own))
        write_text(folder / SOAK, result.model_dump_json(indent=2))
        return tuple(in_words(result))

    @property
    def _seconds(self) -> float:
        return seconds_since(self._start_ns, self.clock)
