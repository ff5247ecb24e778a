"""The resilience card: everything that an audit found out, for pages and for machines."""

import json
from typing import Literal, Self, TypeAlias

from chaos.audit import answer
from chaos.audit.determinism import Repetition
from chaos.audit.finding import Finding
from chaos.audit.group import Group, Question
from chaos.audit.notes import Note
from chaos.audit.run_row import RunRow
from chaos.model.arguments import Arguments
from chaos.model.scenario import Acceptable
from chaos.model.severity import Severity, worst
from chaos.record import Record
from chaos.words import plural

Ended: TypeAlias = Literal["all", "budget", "interrupted"]


class Job(Record):
    """What was audited, as a clean run showed it.

    `saved`: the reports that carried a checkpoint. `keeps_files`: it saves
    files of its own. `epoch_steps`: the most that a rank makes in an epoch.
    `own_retries` is the script's `max_failures`, `own_preemptions` its
    `max_preemption_failures`. `sees` names what was seen that a fault can change.
    """

    script: str
    args: Arguments
    workers: int
    epochs: int
    steps: int
    saved: int
    clean_s: float
    own_retries: int | None
    keeps_files: bool = False
    own_preemptions: int | None = None
    epoch_steps: int = 0
    sees: tuple[str, ...] = ("losses",)


class Covered(Record):
    """One group: the places that were struck, that were chosen, and that there are.

    `resumes`: it has places at which a restart goes on from a checkpoint.
    `by_column` counts its places in each column of the heat map.
    """

    group: Group
    struck: int
    chosen: int
    places: int
    why_none: str | None
    resumes: bool = False
    by_column: tuple[int, ...] = ()


class Replaced(Record):
    """A setting of the script's in whose place the audit put its own."""

    name: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.name}: {self.before} -> {self.now}"


class Card(Record):
    """One audit. `ended` says whether every chosen place was struck.

    `limit` names the option that ended it early. `missing_parts`: the checkpoints
    (early, middle, late) from which no restart went on although one could have.
    `hashes_apart` says where the job trains on other data with another hash seed.
    `columns` are the epochs, or ranges of them, of the heat map.
    """

    version: str
    backend: str
    seed: int
    command: str
    folder: str
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
    limit: str | None = None
    missing_parts: tuple[str, ...] = ()
    hashes_apart: str | None = None
    accept: tuple[Acceptable, ...] = ()
    has_tolerance: bool = False
    replaced: tuple[Replaced, ...] = ()
    columns: tuple[str, ...] = ("0",)

    @property
    def right(self) -> int:
        """The places after which the job went on from a checkpoint, and came out right."""
        return sum(run.is_right and run.resumed > 0 for run in self.runs)

    @property
    def from_scratch(self) -> int:
        """The places after which it came out right, and began anew: no resume was tested."""
        return sum(run.is_right and run.resumed == 0 for run in self.runs)

    @property
    def broken(self) -> int:
        """The places after which it did not come out right."""
        return sum(run.is_wrong for run in self.runs)

    @property
    def inconclusive(self) -> tuple[RunRow, ...]:
        """The runs of which that cannot be told."""
        return tuple(run for run in self.runs if run.status == "inconclusive")

    @property
    def resumed(self) -> int:
        """How many restarts went on from a checkpoint."""
        return sum(run.resumed for run in self.runs)

    @property
    def resumed_right(self) -> int:
        """How many of them were in runs that came out right."""
        return sum(run.resumed for run in self.runs if run.is_right)

    @property
    def places(self) -> tuple[int, int]:
        """How many places were tried, and how many there are."""
        return sum(run.happened for run in self.runs), sum(row.places for row in self.covered)

    @property
    def landed(self) -> tuple[int, int]:
        """How many faults were seen to land, and how many were planned."""
        return sum(run.landed for run in self.runs), sum(len(run.ops) for run in self.runs)

    @property
    def is_partial(self) -> bool:
        """Whether places that the job has were not struck."""
        return any(row.struck < row.places for row in self.covered)

    @property
    def severity(self) -> Severity | None:
        """The gravest severity of what is wrong, None where nothing is."""
        return worst(run.severity for run in self.runs if run.is_wrong and run.severity)

    @property
    def word(self) -> answer.Word:
        """The answer: pass, fail or inconclusive."""
        return answer.word(self)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the answer is inconclusive; why it would be, where something wrong was found."""
        return tuple(answer.reasons(self))

    @property
    def exit_code(self) -> int:
        """0: pass. 1: fail. 2: inconclusive."""
        return answer.WORDS.index(self.word)

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return answer.sentence(self)

    @property
    def size(self) -> str:
        """How large the job is, by what a clean run showed."""
        job = self.job
        of = f" of up to {plural(job.epoch_steps, 'step')}" if job.epoch_steps else ""
        steps = f"{plural(job.steps, 'step')} per rank" if job.steps else "no step seen"
        ranks = plural(job.workers, "rank")
        passes = f"{plural(job.epochs, 'epoch')}{of}" if job.epochs else "1 pass"
        return f"{ranks}, {passes}, {steps}, {plural(job.saved, 'checkpoint')}"

    @property
    def badge(self) -> str:
        """One line for a README."""
        size = plural(self.job.workers, "rank")
        size += f", {plural(self.job.epochs, 'epoch')}" if self.job.epochs else ""
        ray = self.versions.get("ray", "").rsplit(".", maxsplit=1)[0]
        of = f"({size}, Ray {ray})" if ray else f"({size})"
        return f"chaos audit: {self.word}, {answer.coverage(self)} {of}"

    def to_json(self) -> str:
        """Return the whole card for machines; what follows from the rest stands in `verdict`."""
        tried, places = self.places
        verdict = {
            "word": self.word,
            "sentence": self.sentence,
            "exit_code": self.exit_code,
            "reasons": list(self.reasons),
            "severity": self.severity,
            "resumes": {"of": self.resumed, "right": self.resumed_right},
            "places": {"of": places, "tried": tried},
            "right": self.right,
            "from_scratch": self.from_scratch,
            "broken": self.broken,
            "inconclusive": len(self.inconclusive),
            "is_partial": self.is_partial,
            "badge": self.badge,
        }
        return json.dumps({"verdict": verdict, **json.loads(self.model_dump_json())}, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` gave; `ValidationError` where it is not of this version."""
        fields = json.loads(text)
        if isinstance(fields, dict):
            fields.pop("verdict", None)
        return cls.model_validate_json(json.dumps(fields))
