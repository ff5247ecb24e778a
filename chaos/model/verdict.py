"""The verdict of a run: pass, fail or inconclusive, with its reasons."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from pydantic import Field

from chaos.model.diagnosis import Resume
from chaos.model.expect import VerdictStatus
from chaos.model.severity import Severity, find_worst_severity
from chaos.record import Record

Standing: TypeAlias = Literal["expected", "unexpected", "undecided", "not_run", "skipped"]


#: `unwatched-step`: a restart went on at a step whose state no clean run recorded.
DoubtKind: TypeAlias = Literal["unwatched-step"]


class Anomaly(Record):
    """One broken promise, with the numbers of the events that show it."""

    #: the one of `chaos list findings`, or of another package's check; it is never renamed without
    #: an alias. Empty in verdicts from before there were kinds
    kind: str = ""
    #: numbers, ranks, files and names, in fields that belong to the kind
    facts: dict[str, Any] = Field(default_factory=dict)
    message: str
    events: tuple[int, ...] = ()
    #: what it is about, without ranks: parts of the state, metrics, files
    parts: tuple[str, ...] = ()
    severity: Severity = "wrong result"
    #: whether it is a result of the run that differs, where its check has both kinds
    is_result: bool | None = None
    #: the message for where the cause was shown; empty where the message says nothing but that
    message_without_guess: str = ""
    #: whether why it is so was not seen
    is_unexplained: bool = False


class CheckDoubt(Record):
    """A reason why a check is inconclusive."""

    message: str
    #: set where more can be done than to show the message
    kind: DoubtKind | None = None


Role: TypeAlias = Literal["made", "saved", "read"]


class JobLine(Record):
    """A line of the job's code behind a resume that is wrong."""

    #: it made what did not come back, saved the file that was read (the last one, where none was),
    #: or read it
    role: Role
    #: the variables that it made
    names: tuple[str, ...] = ()
    #: the part of the state that it holds; empty for a value that no check compares
    part: str = ""
    #: a file that was read holds such a state, so that nothing is said to belong in the save
    is_saved: bool = False
    #: from the working folder, if it is below it
    file: str
    line: int
    #: the number of the first of the lines in `around`
    first: int
    #: it, and at most two lines before and two after it
    around: tuple[str, ...] = ()

    @property
    def location(self) -> str:
        """Its file's name, and its number."""
        return f"{self.file.rpartition('/')[2]}:{self.line}"

    @property
    def text(self) -> str:
        """The line itself, without what it is indented by."""
        index = self.line - self.first
        return self.around[index].strip() if index < len(self.around) else ""

    def __str__(self) -> str:
        names_text = "".join(f"`{name}`, " for name in self.names)
        return f"{names_text}{self.location}: {self.text}"


class CheckResult(Record):
    """One check's judgement."""

    check: str
    status: VerdictStatus
    #: the finding in one line, whatever the outcome
    summary: str
    #: the observations that it rests on; without any a check is inconclusive
    evidence: int
    anomalies: tuple[Anomaly, ...] = ()
    #: broken promises that no result of the run bears out: they fail nothing
    latent: tuple[Anomaly, ...] = ()
    #: broken promises that the scenario allows: they fail nothing
    accepted: tuple[Anomaly, ...] = ()
    #: why they are allowed, where they are by their kind
    accepted_reasons: tuple[str, ...] = ()
    #: why it is inconclusive, where that is not for want of any evidence
    doubts: tuple[CheckDoubt, ...] = ()
    #: figures worth showing, each named with its unit
    measures: dict[str, float | int | str | None] = Field(default_factory=dict)
    #: the one that brings the check, where it is not chaos's own
    package: str | None = None

    @property
    def severity(self) -> Severity | None:
        """The gravest of its anomalies' severities, None without any."""
        return find_worst_severity(anomaly.severity for anomaly in self.anomalies)


ResultName: TypeAlias = Literal["steps", "samples", "state", "files", "metrics", "work", "end"]
RESULT_WORDS: Mapping[ResultName, str] = {
    "steps": "inputs and losses",
    "samples": "samples and epochs",
    "state": "state",
    "files": "files",
    "metrics": "metrics",
    "work": "finished work",
    "end": "the end",
}


class ComparedResult(Record):
    """One of the results that decide, beside the baseline's."""

    name: ResultName
    status: Literal["equal", "different", "not compared"]
    #: what was compared, what differs, or why nothing was compared
    detail: str
    #: what clean runs do not agree on: it was not compared
    left_out: tuple[str, ...] = ()


class RestartCounts(Record):
    """The number of restarts of training, by the place where they continued."""

    #: from a checkpoint, or a file of the job's own
    resumed: int = 0
    #: from the beginning, as it must where nothing was saved yet
    from_scratch: int = 0
    #: it made no step, because a fault came first, or nothing was left to do
    idle: int = 0


class Verdict(Record):
    """The judgement over all checks, the most specific broken promise first."""

    status: VerdictStatus
    headline: str
    #: compares with the scenario's `expect`: a job with a known defect that fails by the check that
    #: the scenario names is as expected
    as_expected: bool
    expectation: str
    results: tuple[CheckResult, ...]
    #: whether each result of the run is the baseline's
    compared: tuple[ComparedResult, ...] = ()
    #: a defect of Ray's own that the scenario expects did not show
    is_news: bool = False
    #: for each resume, the parts of the job's state
    diagnosis: tuple[Resume, ...] = ()
    #: of the job's code, behind the first broken check if that is of a resume
    lines: tuple[JobLine, ...] = ()
    #: worth knowing, and breaking no promise: the baseline shows them too
    notes: tuple[str, ...] = ()
    #: how often a resume was tested at all
    restarts: RestartCounts = RestartCounts()
    #: the digest of the file that was judged
    history: str | None = None

    @property
    def severity(self) -> Severity | None:
        """The gravest severity of all that is broken, None where nothing is."""
        return find_worst_severity(
            severity for result in self.broken if (severity := result.severity) is not None
        )

    @property
    def broken(self) -> tuple[CheckResult, ...]:
        """The checks that found something, most specific first."""
        return tuple(result for result in self.results if result.status == "fail")

    @property
    def undecided(self) -> tuple[CheckResult, ...]:
        return tuple(result for result in self.results if result.status == "inconclusive")
