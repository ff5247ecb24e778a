"""The verdict of a run: pass, fail or inconclusive, with its reasons."""

from typing import Literal, TypeAlias

from pydantic import Field

from chaos.model.diagnosis import Resume
from chaos.model.scenario import VerdictStatus
from chaos.model.severity import Severity, worst
from chaos.record import Record

Standing: TypeAlias = Literal["expected", "unexpected", "undecided", "not_run", "skipped"]


class Anomaly(Record):
    """One broken promise, with the numbers of the events that show it.

    `parts` are the parts of the state that it is about, without their ranks.
    """

    message: str
    events: tuple[int, ...] = ()
    parts: tuple[str, ...] = ()
    severity: Severity = "wrong result"


class CheckResult(Record):
    """One check's judgement.

    `summary` is the finding in one line, whatever the outcome. `evidence` counts the observations
    it rests on; without any a check is inconclusive. `measures` are figures worth showing, each
    named with its unit. `package` is the one that brings the check, where it is not chaos's own.
    """

    check: str
    status: VerdictStatus
    summary: str
    evidence: int
    anomalies: tuple[Anomaly, ...] = ()
    measures: dict[str, float | int | str | None] = Field(default_factory=dict)
    package: str | None = None

    @property
    def severity(self) -> Severity | None:
        """The gravest of its anomalies' severities, None without any."""
        return worst(anomaly.severity for anomaly in self.anomalies)


class Restarts(Record):
    """The number of restarts of training, by the place where they continued.

    `resumed`: from a checkpoint, or a file of the job's own. `from_scratch`: from the beginning, as
    it must where nothing was saved yet. `idle`: it made no step, because a fault came first, or
    nothing was left to do.
    """

    resumed: int = 0
    from_scratch: int = 0
    idle: int = 0


class Verdict(Record):
    """The judgement over all checks, the most specific broken promise first.

    `as_expected` compares with the scenario's `expect`: a job with a known defect that fails by the
    check that the scenario names is as expected. `is_news`: a defect of Ray's own that the scenario
    expects did not show. `diagnosis` holds, for each resume, the parts of the job's state. `notes`
    are worth knowing and break no promise: the baseline shows them too. `restarts` shows how often
    a resume was tested at all. `history` is the digest of the file that was judged.
    """

    status: VerdictStatus
    headline: str
    as_expected: bool
    expectation: str
    results: tuple[CheckResult, ...]
    is_news: bool = False
    diagnosis: tuple[Resume, ...] = ()
    notes: tuple[str, ...] = ()
    restarts: Restarts = Restarts()
    history: str | None = None

    @property
    def severity(self) -> Severity | None:
        """The gravest severity of all that is broken, None where nothing is."""
        return worst(found for r in self.broken if (found := r.severity) is not None)

    @property
    def broken(self) -> tuple[CheckResult, ...]:
        """The checks that found something, most specific first."""
        return tuple(r for r in self.results if r.status == "fail")

    @property
    def undecided(self) -> tuple[CheckResult, ...]:
        return tuple(r for r in self.results if r.status == "inconclusive")
