"""The result of a run, for a test to make claims about."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from chaos.model.history import History
from chaos.model.plan import Plan
from chaos.model.verdict import Verdict
from chaos.report.brief import line_of
from chaos.report.outcome import FinishedRun, in_words, row_of
from chaos.words import plural

LINE_MAX = 120


class Finding(NamedTuple):
    """One broken promise: the check that found it, its message, the events that show it."""

    check: str
    message: str
    events: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Result:
    """One judged run. Exactly one of `passed`, `failed` and `inconclusive` is true."""

    run: FinishedRun

    @property
    def passed(self) -> bool:
        """Whether every check has evidence, and found nothing."""
        return self.verdict.status == "pass"

    @property
    def failed(self) -> bool:
        """Whether a promise is broken."""
        return self.verdict.status == "fail"

    @property
    def inconclusive(self) -> bool:
        """Whether the run is inconclusive."""
        return self.verdict.status == "inconclusive"

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the one of the scenario's `expect`."""
        return self.verdict.as_expected

    @property
    def verdict(self) -> Verdict:
        """The verdict, check by check, with the diagnosis."""
        return self.run.verdict

    @property
    def headline(self) -> str:
        """The verdict in a sentence."""
        return self.verdict.headline

    @property
    def broken(self) -> tuple[str, ...]:
        """The checks that found something, the most specific first."""
        return tuple(result.check for result in self.verdict.broken)

    @property
    def anomalies(self) -> tuple[Finding, ...]:
        """All broken promises, those of the most specific check first."""
        return tuple(
            Finding(result.check, anomaly.message, anomaly.events)
            for result in self.verdict.broken
            for anomaly in result.anomalies
        )

    @property
    def attempts(self) -> int:
        """The number of worker groups; 1 if there was no restart."""
        return len(self.run.analysis.run.attempts)

    @property
    def lost_steps(self) -> int:
        """The finished steps that restarts discarded, of the rank that lost most.

        Raises `ValueError` for a job whose steps cannot be watched: their number is unknown.
        """
        lost = row_of(self.run).lost_steps
        if lost is None:
            raise ValueError("the job makes no step that could be watched, so none can be counted")
        return lost

    @property
    def recovery_s(self) -> float | None:
        """The slowest recovery: from a fault to the next attempt's first step; None without one."""
        return row_of(self.run).recovery_s

    @property
    def losses(self) -> dict[int, tuple[float | str, ...]]:
        """Every rank's losses in the surviving lineage, in order ("nan" and "inf" as text)."""
        lineage = self.run.analysis.run.lineage
        return {
            rank: tuple(
                loss
                for epoch in lineage.epochs[rank]
                for step in lineage.steps[rank, epoch]
                for loss in step.losses or ()
            )
            for rank in lineage.ranks
        }

    @property
    def history(self) -> History:
        """All events of the run, in order; `history.of(StepDone)` returns those of one kind."""
        return self.run.history

    @property
    def plan(self) -> Plan:
        """The executed plan: the scenario with every choice made."""
        return self.run.plan

    @property
    def directory(self) -> Path:
        """The run's folder."""
        return Path(self.run.directory)

    @property
    def report(self) -> Path:
        """The run's page, `report.html`."""
        return self.directory / "report.html"

    def __repr__(self) -> str:
        if self.passed:
            lost = row_of(self.run).lost_steps
            steps = "no step watched" if lost is None else f"{plural(lost, 'step')} lost"
            cost = f"{plural(self.attempts, 'attempt')}, {steps}"
            return f"<{in_words(self.verdict)}: {cost}>"
        line = line_of(self.verdict)
        return f"<{line if len(line) <= LINE_MAX else line[:LINE_MAX] + '…'}>"
