"""The result of a run for Python: what a test makes claims about, and a notebook shows."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from chaos.model.history import History
from chaos.model.plan import Plan
from chaos.model.verdict import Verdict
from chaos.report.html import Fragment, render_fragment
from chaos.report.outcome import FinishedRun, known, row_of, tone
from chaos.report.sections import in_words, line_of, ways
from chaos.words import plural

LINE_MAX = 120
ANOMALIES_SHOWN = 3


class BrokenPromise(NamedTuple):
    """One broken promise."""

    #: the one that found it
    check: str
    message: str
    #: the numbers of those that show it
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
    def anomalies(self) -> tuple[BrokenPromise, ...]:
        """All broken promises, those of the most specific check first."""
        return tuple(
            BrokenPromise(result.check, anomaly.message, anomaly.events)
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
                for step in lineage.steps_of(rank, epoch)
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

    def _repr_html_(self) -> str:
        """Return the verdict for a notebook."""
        row = row_of(self.run)
        facts = {
            "attempts": known(row.attempts, "{}"),
            "lost steps": known(row.lost_steps, "{}"),
            "recovery": known(row.recovery_s, "{:.1f} s"),
            "took": f"{row.duration_s:.1f} s",
        }
        found = [(each.check, each.message, "") for each in self.anomalies[:ANOMALIES_SHOWN]]
        return render_fragment(
            Fragment(
                tone=tone(self.verdict),
                word=in_words(self.verdict, brief=True),
                title=self.plan.scenario,
                sentence=self.headline,
                rows=[list(facts), list(facts.values())],
                found=[each for each in found if each[1] not in self.headline],
                ways=ways(self.run.directory, self.verdict),
            )
        )
