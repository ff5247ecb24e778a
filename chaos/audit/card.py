"""The resilience card: all results of an audit, for pages and for machines.

What its answer follows from is in `answer`.
"""

import json
from collections import Counter
from typing import Literal, Self, TypeAlias, get_args

from chaos.audit.answer import WORDS, Word, describe_coverage, find_answer, find_reasons
from chaos.audit.determinism import CleanRunComparison
from chaos.audit.finding import Finding
from chaos.audit.notes import Note
from chaos.audit.retries import Retries
from chaos.audit.run_row import RunRow
from chaos.audit.site_category import Question, SiteCategory
from chaos.model.arguments import Arguments
from chaos.model.expect import Acceptable, Sampling
from chaos.model.launcher import DEFAULT_LAUNCHER, LAUNCHER_FACTS, Launcher
from chaos.model.launcher_policy import LauncherPolicy
from chaos.model.severity import Severity, find_worst_severity
from chaos.record import Record
from chaos.wording import plural

Ended: TypeAlias = Literal["all", "budget", "interrupted"]


class AuditedJob(Record):
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
    launcher: Launcher = DEFAULT_LAUNCHER
    #: the evidence that a fault can change
    sees: tuple[str, ...] = ("losses",)

    @property
    def facts(self) -> LauncherPolicy:
        return LAUNCHER_FACTS[self.launcher]


class GroupCoverage(Record):
    """One group: its places, those that were chosen, and those that were tried."""

    group: SiteCategory
    tried: int
    chosen: int
    places: int
    #: the reason why a group has no place in this job
    why_none: str | None
    #: it has places at which a restart resumes from a checkpoint
    resumes: bool = False
    #: its places in each column of the table by epoch
    by_column: tuple[int, ...] = ()


class SaveStep(Record):
    """An operation of the job's longest save, and its places."""

    name: str
    tried: int
    wrong: int

    def __str__(self) -> str:
        if self.wrong:
            return f"{self.name} (wrong)"
        return self.name if self.tried else f"{self.name} (not tried)"


class ReplacedSetting(Record):
    """A setting of the script that the audit replaced."""

    name: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.name}: {self.before} -> {self.now}"


class AuditChanges(Record):
    """The fate of the last audit's places in this one, by group and name."""

    #: that audit's
    folder: str
    #: failed then, and right now
    mended: tuple[str, ...]
    #: failed then, and wrong now
    still: tuple[str, ...]
    #: wrong now, and not then; among them those that were right then
    new: tuple[str, ...]
    broken: tuple[str, ...]
    #: failed then, and without an answer now
    untold: tuple[str, ...]
    #: failed then, and the job has no such place now, or it was left out
    gone: tuple[str, ...]
    #: the number of places that were right then, and hold still without being tried again
    kept: int
    #: nothing that is known had changed, and what failed then is right now all the same
    is_unexplained: bool = False


LossResult: TypeAlias = Literal["found", "not found", "in doubt", "no consequence", "not planted"]


class PlantedLoss(Record):
    """One part of the job's state that was lost on purpose at a resume, and what came of it."""

    #: as findings name it: `optimizer`, `rng.torch`, `meter.count`
    part: str
    result: LossResult
    #: the finding names the part
    is_named: bool = False
    #: what the run was judged to be, or why nothing was lost in it
    reason: str


class Controls(Record):
    """The losses that were planted after a pass, to show what it would have caught."""

    losses: tuple[PlantedLoss, ...] = ()
    #: the resume at which they were planted
    place: str = ""
    #: why there are none
    reason: str = ""

    def __str__(self) -> str:
        if not self.losses:
            return f"no loss was planted: {self.reason}"
        nameless = [loss for loss in self.select("found") if not loss.is_named]
        groups = {result: self.select(result) for result in get_args(LossResult)[1:]}
        texts = [self.summary]
        for label, losses in {"found, but not named": nameless, **groups}.items():
            if losses:
                texts.append(f"{label}: {', '.join(f'`{loss.part}`' for loss in losses)}")
        return "; ".join(texts)

    @property
    def summary(self) -> str:
        """The number found of those that may have a consequence, in words."""
        counts = [len(self.select(result)) for result in get_args(LossResult)[:3]]
        if not any(counts):
            return "no planted loss was judged"
        return f"{counts[0]} of {sum(counts)} planted losses found"

    def select(self, result: LossResult) -> list[PlantedLoss]:
        """Return the losses with a result."""
        return [loss for loss in self.losses if loss.result == result]


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
    job: AuditedJob
    repetition: CleanRunComparison
    notes: tuple[Note, ...]
    covered: tuple[GroupCoverage, ...]
    #: empty where a save of the job has no operations at which a fault can be injected
    save_steps: tuple[SaveStep, ...] = ()
    runs: tuple[RunRow, ...]
    findings: tuple[Finding, ...]
    question: Question = "spot"
    #: the option that ended it early
    limit: str | None = None
    #: the checkpoints (early, middle, late) from which no restart resumed although one could have
    missing_parts: tuple[str, ...] = ()
    #: the place at which the job trains on other data with another hash seed
    hashes_apart: str | None = None
    #: the lines of the job that train on after an exception, which no fault has tried
    recoveries: tuple[str, ...] = ()
    accept: tuple[Acceptable, ...] = ()
    sampling: Sampling = "exactly_once"
    has_tolerance: bool = False
    replaced: tuple[ReplacedSetting, ...] = ()
    #: the epochs, or ranges of them, of the table by epoch
    columns: tuple[str, ...] = ("0",)
    #: the runs with faults, those that rows share, and those tried again alone, included
    run_count: int = 0
    #: the means by which the job begins again as it is configured
    retries: Retries = Retries(source="settings")
    #: a digest of all that the results follow from but the places
    basis: str = ""
    #: of an audit that continues another one
    since: AuditChanges | None = None
    #: None where none were asked for, or the answer is no pass
    controls: Controls | None = None

    @property
    def right(self) -> int:
        """The places after which the job reached a right result, and had not begun anew."""
        return sum(run.is_right and not run.is_from_scratch for run in self.runs)

    @property
    def scratch_count(self) -> int:
        """The places after which the job began anew, with a right result: no resume was tested."""
        return sum(run.is_from_scratch for run in self.runs)

    @property
    def wrong(self) -> tuple[RunRow, ...]:
        """The places after which the job reached no right result, and such runs of several."""
        return tuple(run for run in self.runs if run.is_wrong)

    @property
    def broken(self) -> int:
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
        counts = Counter(run.number for run in self.runs)
        return sum(count for count in counts.values() if count > 1)

    @property
    def landed(self) -> tuple[int, int]:
        """The number of faults that were seen to take effect, and of those planned."""
        return sum(run.landed for run in self.runs), sum(len(run.ops) for run in self.runs)

    @property
    def tried_groups(self) -> set[SiteCategory]:
        """The groups of which a place was tried."""
        return {run.group for run in self.runs if run.has_all_faults}

    @property
    def keeps_nothing(self) -> bool:
        """Whether all that the job saved was seen to be gone where it restarted."""
        job, keeps_flags = self.job, [run.keeps for run in self.runs if run.keeps is not None]
        is_rays = bool(job.saved) and job.facts.has_reports
        return bool(keeps_flags) and not any(keeps_flags) and not is_rays

    @property
    def is_partial(self) -> bool:
        """Whether places of the job were not tried."""
        return any(row.tried < row.places for row in self.covered)

    @property
    def severity(self) -> Severity | None:
        """The gravest severity of all findings, None if there are none."""
        return find_worst_severity(finding.severity for finding in self.findings)

    @property
    def word(self) -> Word:
        return find_answer(self).word

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons why the answer is inconclusive, or would be without the findings."""
        return tuple(find_reasons(self))

    @property
    def exit_code(self) -> int:
        return WORDS.index(self.word)

    @property
    def sentence(self) -> str:
        """The answer with its evidence."""
        return f"{self.word}: {self.evidence}"

    @property
    def evidence(self) -> str:
        """The evidence for the answer, without its word."""
        return find_answer(self).evidence

    @property
    def size(self) -> str:
        """The size of the job, by a clean run."""
        job = self.job
        epoch_length = f" of up to {plural(job.epoch_steps, 'step')}" if job.epoch_steps else ""
        steps = f"{plural(job.steps, 'step')} per rank" if job.steps else "no step seen"
        ranks = plural(job.workers, "rank")
        passes = f"{plural(job.epochs, 'epoch')}{epoch_length}" if job.epochs else "1 pass"
        saved = "no checkpoint kept" if self.keeps_nothing else plural(job.saved, "checkpoint")
        return f"{ranks}, {passes}, {steps}, {saved}"

    @property
    def launched_by(self) -> str:
        """The launcher and its version; empty if that is unknown."""
        version = self.versions.get(self.job.facts.package)
        return f"{self.job.facts.words.product} {version}" if version else ""

    @property
    def badge(self) -> str:
        """One line for a README."""
        size = plural(self.job.workers, "rank")
        size += f", {plural(self.job.epochs, 'epoch')}" if self.job.epochs else ""
        product = self.launched_by.rsplit(".", maxsplit=1)[0]
        details = f"({size}, {product})" if product else f"({size})"
        controls = f", {self.controls.summary}" if self.controls else ""
        return f"chaos audit: {self.word}, {describe_coverage(self)}{controls} {details}"

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
            "from_scratch": self.scratch_count,
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
