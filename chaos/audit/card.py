"""The resilience card: everything that an audit found out, for pages and for machines."""

import json
import shlex
from typing import Literal, Self, TypeAlias

from chaos.audit.finding import Finding
from chaos.audit.group import Group
from chaos.audit.note import Note
from chaos.audit.repetition import Repetition
from chaos.audit.struck import StruckRun
from chaos.check.result import plural
from chaos.model.arguments import Arguments, command_line
from chaos.model.plan import Plan
from chaos.record import Record

Ended: TypeAlias = Literal["all", "budget", "interrupted"]
EXIT_SURVIVES, EXIT_FINDINGS, EXIT_UNKNOWN = range(3)


class Job(Record):
    """What was audited, as a clean run showed it.

    `saved`: the reports that carried a checkpoint. `keeps_files`: it saves
    files of its own. `epoch_steps`: the most that a rank makes in an epoch.
    `own_retries` is the script's `max_failures`, `own_preemptions` its
    `max_preemption_failures`.
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


class Covered(Record):
    """One group: the places that were struck, that were chosen, and that there are."""

    group: Group
    struck: int
    chosen: int
    places: int
    why_none: str | None


class Card(Record):
    """One audit. `ended` says whether every chosen place was struck."""

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
    runs: tuple[StruckRun, ...]
    findings: tuple[Finding, ...]

    @property
    def survived(self) -> int:
        """The places after which the job came out right."""
        return sum(run.validity == "valid" for run in self.runs)

    @property
    def broken(self) -> int:
        """The places after which it did not."""
        return sum(run.validity == "invalid" for run in self.runs)

    @property
    def unknown(self) -> tuple[StruckRun, ...]:
        """The runs of which that cannot be told."""
        return tuple(run for run in self.runs if run.validity == "unknown")

    @property
    def landed(self) -> tuple[int, int]:
        """How many faults were seen to land, and how many were planned."""
        return sum(run.landed for run in self.runs), sum(len(run.ops) for run in self.runs)

    @property
    def is_partial(self) -> bool:
        """Whether places that the job has were not struck."""
        return any(row.struck < row.places for row in self.covered)

    @property
    def exit_code(self) -> int:
        """0: nothing was found. 1: findings. 2: nothing but what cannot be told."""
        if self.broken:
            return EXIT_FINDINGS
        return EXIT_UNKNOWN if self.unknown or not self.runs else EXIT_SURVIVES

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        total = plural(len(self.runs), "place")
        if not self.runs:
            return "no place was struck, so nothing is known"
        if self.broken:
            causes = "one cause" if len(self.findings) == 1 else f"{len(self.findings)} causes"
            tail = f"; for {len(self.unknown)} it cannot be told" if self.unknown else ""
            return f"does not survive {self.broken} of {total}: {causes}{tail}"
        if self.unknown:
            untold = len(self.unknown)
            return f"survives {self.survived} of {total}; for {untold} it cannot be told"
        struck = " that were struck" if self.is_partial else ""
        return f"survives all {total}{struck}{self._but()}"

    @property
    def size(self) -> str:
        """How large the job is, by what a clean run showed."""
        job = self.job
        of = f" of up to {plural(job.epoch_steps, 'step')}" if job.epoch_steps else ""
        steps = f"{plural(job.steps, 'step')} per rank" if job.steps else "no step seen"
        ranks, epochs = plural(job.workers, "rank"), plural(job.epochs, "epoch")
        return f"{ranks}, {epochs}{of}, {steps}, {plural(job.saved, 'checkpoint')}"

    @property
    def badge(self) -> str:
        """One line for a README."""
        size = f"{plural(self.job.workers, 'rank')}, {plural(self.job.epochs, 'epoch')}"
        ray = f", Ray {self.versions['ray']}" if "ray" in self.versions else ""
        counts = f"survives {self.survived} of {plural(len(self.runs), 'place')}"
        return f"chaos audit: {counts} ({size}{ray})"

    def to_json(self) -> str:
        """Give the whole card for machines; what follows from the rest stands in `verdict`."""
        verdict = {
            "sentence": self.sentence,
            "exit_code": self.exit_code,
            "survived": self.survived,
            "broken": self.broken,
            "unknown": len(self.unknown),
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

    def _but(self) -> str:
        """Say what the job survives only in a way that its owner should know of."""
        if self.job.own_retries == 0:
            return ", given the retries that its own `max_failures: 0` does not allow"
        if self.job.own_preemptions == 0 and self._gave_notice():
            return ", given the retries that its own `max_preemption_failures: 0` does not allow"
        if self.job.saved == 0 and not self.job.keeps_files:
            return ", each time from scratch: it saves no checkpoint"
        return ""

    def _gave_notice(self) -> bool:
        return any(op.kind == "preempt_node" for run in self.runs for op in run.ops)


def command_of(plan: Plan, *options: str) -> str:
    """Give the command line that repeats an audit."""
    words = ["chaos", "audit", plan.job.source, "--seed", str(plan.seed), *options]
    args = command_line(plan.job.args)
    return shlex.join([*words, "--", *args] if args else words)
