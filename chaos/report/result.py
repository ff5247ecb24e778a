"""The result of a run for Python: what a test makes claims about, and a notebook shows."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from chaos.model.history import History
from chaos.model.plan import Plan
from chaos.model.verdict import Verdict
from chaos.report.html import Fragment, render_fragment
from chaos.report.outcome import FinishedRun, build_suite_row, find_tone, format_figure
from chaos.report.sections import describe_finding, describe_verdict, list_next_steps
from chaos.wording import plural

LINE_MAX = 120
ANOMALIES_SHOWN = 3


class BrokenPromise(NamedTuple):
    """One broken promise."""

    #: the one that found it
    check: str
    message: str
    #: the numbers of those that show it
    events: tuple[int, ...]
    #: one of `chaos list findings`; empty for a check of another package that gives none
    kind: str = ""
    #: what it is about: parts of the state, metrics, files
    parts: tuple[str, ...] = ()
    #: what was seen, in the fields of its kind
    facts: Mapping[str, object] = MappingProxyType({})


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
            BrokenPromise(
                result.check,
                anomaly.message,
                anomaly.events,
                anomaly.kind,
                anomaly.parts,
                anomaly.facts,
            )
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
        step_count = build_suite_row(self.run).lost_steps
        if step_count is None:
            raise ValueError("the job makes no step that could be watched, so none can be counted")
        return step_count

    @property
    def recovery_s(self) -> float | None:
        """The slowest recovery: from a fault to the next attempt's first step; None without one."""
        return build_suite_row(self.run).recovery_s

    @property
    def losses(self) -> dict[int, tuple[float | str, ...]]:
        """Every rank's losses in the surviving lineage, in order ("nan" and "inf" as text)."""
        lineage = self.run.analysis.run.lineage
        return {
            rank: tuple(
                loss
                for epoch in lineage.epochs_by_rank[rank]
                for step in lineage.select_steps(rank, epoch)
                for loss in step.losses or ()
            )
            for rank in lineage.ranks
        }

    @property
    def history(self) -> History:
        """All events of the run, in order; `history.select_events(StepDone)` yields one kind."""
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
            lost_count = build_suite_row(self.run).lost_steps
            steps = (
                "no step watched" if lost_count is None else f"{plural(lost_count, 'step')} lost"
            )
            cost = f"{plural(self.attempts, 'attempt')}, {steps}"
            return f"<{describe_verdict(self.verdict)}: {cost}>"
        line = describe_finding(self.verdict)
        return f"<{line if len(line) <= LINE_MAX else line[:LINE_MAX] + '…'}>"

    def _repr_html_(self) -> str:
        """Return the verdict for a notebook."""
        row = build_suite_row(self.run)
        facts = {
            "attempts": format_figure(row.attempts, "{}"),
            "lost steps": format_figure(row.lost_steps, "{}"),
            "recovery": format_figure(row.recovery_s, "{:.1f} s"),
            "took": f"{row.duration_s:.1f} s",
        }
        promise_rows = [(item.check, item.message, "") for item in self.anomalies[:ANOMALIES_SHOWN]]
        return render_fragment(
            Fragment(
                tone=find_tone(self.verdict),
                word=describe_verdict(self.verdict, brief=True),
                title=self.plan.scenario,
                sentence=self.headline,
                rows=[list(facts), list(facts.values())],
                found=[item for item in promise_rows if item[1] not in self.headline],
                ways=list_next_steps(self.run.directory, self.verdict),
            )
        )
