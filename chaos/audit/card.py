"""The resilience card: all results of an audit, for pages and for machines."""

import json
from collections import Counter
from typing import Literal, Self, TypeAlias

from chaos.audit import answer
from chaos.audit.determinism import Repetition
from chaos.audit.finding import Finding
from chaos.audit.group import Group, Question
from chaos.audit.notes import Note
from chaos.audit.retries import Retries
from chaos.audit.run_row import RunRow
from chaos.model.arguments import Arguments
from chaos.model.launcher import FACTS, USUAL, Launcher, LauncherFacts
from chaos.model.scenario import Acceptable, Sampling
from chaos.model.severity import Severity, worst
from chaos.record import Record
from chaos.words import plural

Ended: TypeAlias = Literal["all", "budget", "interrupted"]


class Job(Record):
    """The audited job, by a clean run."""

    script: str
    args: Arguments
    workers: int
    epochs: int
    steps: int
    #: the reports with a checkpoint
    saved: int
    clean_s: float
    #: the script's `max_failures`
    own_retries: int | None
    #: it saves files of its own
    keeps_files: bool = False
    #: the script's `max_preemption_failures`
    own_preemptions: int | None = None
    #: the most steps of a rank in an epoch
    epoch_steps: int = 0
    launcher: Launcher = USUAL
    #: the evidence that a fault can change
    sees: tuple[str, ...] = ("losses",)

    @property
    def facts(self) -> LauncherFacts:
        """The facts of its launcher."""
        return FACTS[self.launcher]


class Covered(Record):
    """One group: its places, those that were chosen, and those that were tried."""

    group: Group
    tried: int
    chosen: int
    places: int
    #: the reason why a group has no place in this job
    why_none: str | None
    #: it has places at which a restart resumes from a checkpoint
    resumes: bool = False
    #: its places in each column of the heat map
    by_column: tuple[int, ...] = ()


class Replaced(Record):
    """A setting of the script that the audit replaced."""

    name: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.name}: {self.before} -> {self.now}"


class Card(Record):
    """The results of one audit."""

    version: str
    backend: str
    seed: int
    command: str
    folder: str
    #: `all`: every chosen place was tried
    ended: Ended
    seconds: float
    versions: dict[str, str]
    job: Job
    repetition: Repetition
    notes: tuple[Note, ...]
    covered: tuple[Covered, ...]
    runs: tuple[RunRow, ...]
    findings: tuple[Finding, ...]
    question: Question = "spot"
    #: the option that ended it early
    limit: str | None = None
    #: the checkpoints (early, middle, late) from which no restart resumed although one could have
    missing_parts: tuple[str, ...] = ()
    #: the place at which the job trains on other data with another hash seed
    hashes_apart: str | None = None
    accept: tuple[Acceptable, ...] = ()
    sampling: Sampling = "exactly_once"
    has_tolerance: bool = False
    replaced: tuple[Replaced, ...] = ()
    #: the epochs, or ranges of them, of the heat map
    columns: tuple[str, ...] = ("0",)
    #: the runs with faults, those that rows share, and those tried again alone, included
    run_count: int = 0
    #: the means by which the job begins again as it is configured
    retries: Retries = Retries(source="settings")

    @property
    def right(self) -> int:
        """The places after which the job resumed from a checkpoint, and reached a right result."""
        return sum(run.is_right and run.resumed > 0 for run in self.runs)

    @property
    def from_scratch(self) -> int:
        """The places after which the job began anew, with a right result: no resume was tested."""
        return sum(run.is_right and run.resumed == 0 for run in self.runs)

    @property
    def wrong(self) -> tuple[RunRow, ...]:
        """The places after which the job reached no right result, and such runs of several."""
        return tuple(run for run in self.runs if run.is_wrong)

    @property
    def broken(self) -> int:
        """The number of them."""
        return len(self.wrong)

    @property
    def inconclusive(self) -> tuple[RunRow, ...]:
        return tuple(run for run in self.runs if run.status == "inconclusive")

    @property
    def resumed(self) -> int:
        """The number of restarts that resumed from a checkpoint."""
        return sum(run.resumed for run in self.runs)

    @property
    def resumed_right(self) -> int:
        """The number of resumes in runs with a right result."""
        return sum(run.resumed for run in self.runs if run.is_right)

    @property
    def places(self) -> tuple[int, int]:
        """The number of places that were tried, and of all places."""
        return sum(run.is_tried for run in self.runs), sum(row.places for row in self.covered)

    @property
    def shared(self) -> int:
        """The number of places that were tried in a run with others."""
        return sum(
            count for count in Counter(run.number for run in self.runs).values() if count > 1
        )

    @property
    def landed(self) -> tuple[int, int]:
        """The number of faults that were seen to take effect, and of those planned."""
        return sum(run.landed for run in self.runs), sum(len(run.ops) for run in self.runs)

    @property
    def is_partial(self) -> bool:
        """Whether places of the job were not tried."""
        return any(row.tried < row.places for row in self.covered)

    @property
    def severity(self) -> Severity | None:
        """The gravest severity of all findings, None if there are none."""
        return worst(finding.severity for finding in self.findings)

    @property
    def word(self) -> answer.Word:
        return answer.word(self)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons why the answer is inconclusive, or would be without the findings."""
        return tuple(answer.reasons(self))

    @property
    def exit_code(self) -> int:
        """0: pass. 1: fail. 2: inconclusive."""
        return answer.WORDS.index(self.word)

    @property
    def sentence(self) -> str:
        return answer.sentence(self)

    @property
    def size(self) -> str:
        """The size of the job, by a clean run."""
        job = self.job
        of = f" of up to {plural(job.epoch_steps, 'step')}" if job.epoch_steps else ""
        steps = f"{plural(job.steps, 'step')} per rank" if job.steps else "no step seen"
        ranks = plural(job.workers, "rank")
        passes = f"{plural(job.epochs, 'epoch')}{of}" if job.epochs else "1 pass"
        return f"{ranks}, {passes}, {steps}, {plural(job.saved, 'checkpoint')}"

    @property
    def launched_by(self) -> str:
        """The launcher and its version; empty if that is unknown."""
        version = self.versions.get(self.job.facts.package)
        return f"{self.job.facts.words.name} {version}" if version else ""

    @property
    def badge(self) -> str:
        """One line for a README."""
        size = plural(self.job.workers, "rank")
        size += f", {plural(self.job.epochs, 'epoch')}" if self.job.epochs else ""
        shown = self.launched_by.rsplit(".", maxsplit=1)[0]
        of = f"({size}, {shown})" if shown else f"({size})"
        return f"chaos audit: {self.word}, {answer.coverage(self)} {of}"

    def to_json(self) -> str:
        """Return the whole card for machines; `verdict` holds the values derived from the rest."""
        tried, places = self.places
        verdict = {
            "word": self.word,
            "sentence": self.sentence,
            "exit_code": self.exit_code,
            "reasons": list(self.reasons),
            "severity": self.severity,
            "resumes": {"of": self.resumed, "right": self.resumed_right},
            "places": {"of": places, "tried": tried},
            "runs": {"of": self.run_count, "places_in_shared_ones": self.shared},
            "restarts": sum(max(run.attempts - 1, 0) for run in self.runs),
            "right": self.right,
            "from_scratch": self.from_scratch,
            "broken": self.broken,
            "inconclusive": len(self.inconclusive),
            "is_partial": self.is_partial,
            "settings": self.retries.sentence if self.retries.is_finding else None,
            "badge": self.badge,
        }
        return json.dumps({"verdict": verdict, **json.loads(self.model_dump_json())}, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the card of a text by `to_json`; raises `ValidationError` for another version."""
        fields = json.loads(text)
        if isinstance(fields, dict):
            fields.pop("verdict", None)
        return cls.model_validate_json(json.dumps(fields))
