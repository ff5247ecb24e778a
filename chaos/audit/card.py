"""The resilience card: all results of an audit, for pages and for machines, and its answer.

Pass is a promise: in every group that the job has, a restart resumed from a
checkpoint, and the job reached the same result. If a group was not tried, or a
defect could not have been seen, the answer is no pass.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, Self, TypeAlias, get_args

from chaos.audit.determinism import CleanRunComparison
from chaos.audit.finding import Finding
from chaos.audit.notes import Note
from chaos.audit.retries import Retries
from chaos.audit.run_row import RunRow
from chaos.audit.site_category import CATEGORY_ORDERS, Question, SiteCategory
from chaos.model.arguments import Arguments
from chaos.model.expect import Acceptable, Sampling
from chaos.model.launcher import DEFAULT_LAUNCHER, LAUNCHER_FACTS, Launcher
from chaos.model.launcher_policy import LauncherPolicy
from chaos.model.severity import Severity, find_worst_severity
from chaos.record import Record
from chaos.wording import join_names, plural

Word: TypeAlias = Literal["pass", "fail", "inconclusive"]
ACCEPTABLE: tuple[Acceptable, ...] = get_args(Acceptable)
WORDS: tuple[Word, ...] = ("pass", "fail", "inconclusive")  # by exit code
REASONS_SHOWN = 2
GROUPS_SHOWN = 3
RESUMES_MIN = 3  # an early, a middle and a late one, if it is unknown which places are late
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
        if self.broken or self.retries.is_finding:
            return "fail"
        return "inconclusive" if self.reasons else "pass"

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
        word, evidence = _judge_runs(self)
        if not self.retries.is_finding:
            return evidence
        prefix = "with retries: " if self.retries.source == "nothing" else ""
        return f"{self.retries.sentence}; {prefix}{word}: {evidence}"

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
        return f"chaos audit: {self.word}, {describe_coverage(self)} {details}"

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


# -- the answer ------------------------------------------------------------------------------------


def _judge_runs(card: Card) -> tuple[str, str]:
    """Return the answer of the runs as if no retries were missing, and its evidence."""
    if card.broken:
        causes = "one cause" if len(card.findings) == 1 else f"{len(card.findings)} causes"
        grave = f", {card.severity}" if card.severity else ""
        return "fail", f"{_describe_places(card, card.wrong)}: {causes}{grave}"
    if card.reasons:
        return "inconclusive", "; ".join(card.reasons[:REASONS_SHOWN])
    return "pass", f"{describe_coverage(card)}{_describe_conditions(card)}"


def describe_coverage(card: Card) -> str:
    """Return in words the number of right resumes, and of the places that were tried."""
    tried, places = card.places
    resumes = f"{card.resumed_right} of {plural(card.resumed, 'resume')} right"
    if not card.job.sees:
        resumes = f"{plural(card.resumed, 'resume')} and nothing compared"
    return f"{resumes}, {tried} of {plural(places, 'place')}"


def coverage_share(card: Card) -> float:
    """Return the share of all places that was tried."""
    tried, places = card.places
    return tried / places if places else 0.0


def describe_confidence(card: Card) -> str | None:
    """Return the claim that resumes without a failure prove; None if one failed, or none was tried.

    If n of n are right, a share of failures above 1 - 0.05 ** (1 / n) is ruled out with 95 %
    confidence.
    """
    if card.broken or not card.resumed_right:
        return None
    failure_share = 1 - 0.05 ** (1 / card.resumed_right)
    resumes = plural(card.resumed_right, "resume")
    return (
        f"no failure in {resumes}: up to {100 * failure_share:.0f} % of resumes could fail (95 % "
        "confidence)"
    )


def find_reasons(card: Card) -> Iterator[str]:
    """Yield the reasons why the answer is not pass although nothing wrong was found."""
    if card.ended == "interrupted":
        yield "the audit was interrupted"
    if card.repetition.reports_apart is not None and not card.repetition.is_by_steps:
        yield (
            "the job reports or saves at other steps from run to run, as one that saves by the "
            f"clock ({card.repetition.reports_apart}), so that no restart can be compared with a "
            "clean run"
        )
        return
    if card.retries.source == "unknown":
        yield "one fault under the job's own retries did not show whether it restarts"
    if not card.runs:
        yield f"no fault was injected{_describe_cut(card)}, so nothing is known"
        return
    yield from _explain_unjudged(card)
    yield from _explain_changes(card)
    yield from _explain_recoveries(card)
    yield from _explain_restarts(card)
    yield from _explain_blindness(card)


def _explain_recoveries(card: Card) -> Iterator[str]:
    """Yield the reason that lines of the job recover from an exception, which no fault raised."""
    if card.recoveries:
        verb = "go" if len(card.recoveries) > 1 else "goes"
        yield (
            f"{join_names(card.recoveries)} {verb} on after an exception in training: not "
            "tried (after "
            f"kills: {describe_coverage(card)})"
        )


def _explain_unjudged(card: Card) -> Iterator[str]:
    # A run of several places may have gone wrong before the last of its faults was due.
    undecided_runs = [run for run in card.inconclusive if run.has_all_faults or run.is_combined]
    if undecided_runs:
        yield (
            f"{_describe_places(card, undecided_runs)} could not be judged: "
            f"{undecided_runs[0].headline.rstrip('.')}"
        )


def _explain_changes(card: Card) -> Iterator[str]:
    """Yield a reason for what failed in the last audit, and is not known to be mended."""
    changes = card.since
    if changes is None:
        return
    if changes.untold:
        failed = plural(len(changes.untold), "place")
        yield f"{failed} that failed in {changes.folder} came to no answer"
    if changes.is_unexplained:
        yield (
            f"{plural(len(changes.mended), 'place')} that failed in {changes.folder} came out "
            "right, "
            "and nothing that chaos sees has changed since: a race, or a change outside of the "
            "job's code; an audit without --continue judges the job as it is"
        )


def _describe_places(card: Card, runs: Sequence[RunRow]) -> str:
    """Return in words the number of those places, and of those runs of several places."""
    combined = sum(run.is_combined for run in runs)
    places = plural(sum(not run.is_combined for run in card.runs), "place")
    words = f"{len(runs) - combined} of {places}"
    combined_runs = plural(combined, "run")
    return f"{words} and {combined_runs} of several places" if combined else words


def _explain_restarts(card: Card) -> Iterator[str]:
    """Yield a reason for each kind of restart that was due and missing."""
    if card.resumed == 0:
        yield _explain_missing_resume(card)
    if card.repetition.is_by_steps and 0 < card.resumed_right < RESUMES_MIN:
        verb = card.job.facts.words.save_action
        yield (
            f"the job {verb}s by the clock, and between its few {verb}s only "
            f"{plural(card.resumed_right, 'restart')} went on from a checkpoint; have it {verb} "
            "more often, or train longer, by its own arguments"
        )
    yield from _explain_omissions(card)
    tried_groups = {run.group for run in card.runs if run.has_all_faults}
    untried_groups = [
        row.group for row in card.covered if row.chosen and row.group not in tried_groups
    ]
    if untried_groups:
        yield f"{_build_subject(untried_groups)} not tried{_describe_cut(card)}"
    untried_steps = [step.name for step in card.save_steps if not step.tried]
    if 0 < len(untried_steps) < len(card.save_steps):
        subject = (
            f"{plural(len(untried_steps), 'operation')} of a save "
            f"{'was' if len(untried_steps) == 1 else 'were'}"
        )
        yield f"{subject} not tried{_describe_cut(card)}"
    # A save that ends training leaves nothing to go on with: none of its restarts can resume.
    resumed_groups = {
        run.group for run in card.runs if run.is_right and (run.resumed or run.had_nothing_left)
    }
    scratch_groups = [
        row.group
        for row in card.covered
        if row.chosen
        and row.resumes
        and row.group in tried_groups
        and row.group not in resumed_groups
    ]
    if card.resumed and scratch_groups:
        yield f"no restart went on from a checkpoint in: {_quote_groups(scratch_groups)}"
    if card.resumed and card.missing_parts:
        yield f"no restart went on from {' or '.join(card.missing_parts)} checkpoint"


def _explain_missing_resume(card: Card) -> str:
    if card.job.saved == 0 and not card.job.keeps_files:
        return "the job saves no checkpoint, so every restart began anew"
    if card.keeps_nothing:
        return (
            "the job keeps no checkpoint: what it saves was gone at every restart, each of which "
            "began anew"
        )
    if any(row.resumes and row.chosen for row in card.covered):
        return "no restart went on from a checkpoint"
    return "no restart had a checkpoint to go on from"


def _explain_omissions(card: Card) -> Iterator[str]:
    """Yield a reason if groups of the question were not asked for: a pass would be of a part."""
    omitted_groups = [
        row.group
        for row in card.covered
        if row.places and not row.chosen and row.group in CATEGORY_ORDERS[card.question]
    ]
    if omitted_groups:
        yield f"{_build_subject(omitted_groups)} left out by --places"


def _explain_blindness(card: Card) -> Iterator[str]:
    """Yield a reason for each kind of defect that could not have been seen."""
    if not card.job.sees:
        yield (
            "no loss, no state and no metric but a counter was seen, so that nothing was compared"
        )
    if card.repetition.hides_much and not card.has_tolerance:
        hidden_part = card.repetition.hidden_part
        amount = "" if hidden_part is None else f" by less than {100 * hidden_part:.2g} %"
        consequence = f"a defect that moves a loss{amount} is not seen"
        if hidden_part is not None and hidden_part > 1:
            consequence = "losses cannot be compared"
        yield f"the job does not repeat itself without a fault, so that {consequence}"
    if card.hashes_apart is not None:
        yield (
            f"with another hash seed the job trains on other data ({card.hashes_apart}), and all "
            "processes of an audit share one"
        )


def _describe_cut(card: Card) -> str:
    if card.ended != "budget":
        return ""
    return f" ({card.limit} ended the audit)" if card.limit else " (the time limit was reached)"


def _build_subject(groups: Sequence[str]) -> str:
    return f"{_quote_groups(groups)} {'was' if len(groups) == 1 else 'were'}"


def _quote_groups(groups: Sequence[str]) -> str:
    quotes = [f"'{group}'" for group in groups[:GROUPS_SHOWN]]
    other_count = len(groups) - len(quotes)
    return ", ".join(quotes) + (f" and {plural(other_count, 'other group')}" if other_count else "")


def _describe_conditions(card: Card) -> str:
    """Return the conditions that a pass depends on, such as retries that the audit added."""
    accepted_runs = [run for run in card.runs if run.accepted]
    conditions = ""
    if accepted_runs:
        words = " and ".join(word for word in ACCEPTABLE if word in card.accept)
        options = [f"`--accept {words}`"] if words else []
        options += ["`--sampling resampled`"] if card.sampling == "resampled" else []
        accepted_defects = [defect for run in accepted_runs for defect in run.accepted]
        kinds = dict.fromkeys(d.kind for d in accepted_defects if d.accepted_reasons)
        options += [f"`--accept {kind}`" for kind in kinds]
        verb = "allows" if len(options) == 1 else "allow"
        places = plural(len(accepted_runs), "place")
        conditions = f"; not the same at {places}, which {' and '.join(options)} {verb}"
    gave_notice = any(op.fault.is_announced for run in card.runs for op in run.ops)
    if card.job.own_preemptions == 0 and gave_notice and card.retries.source != "script":
        retry_condition = (
            "given the retries that its own `max_preemption_failures: 0` does not allow"
        )
        return f"{conditions}; {retry_condition}"
    return conditions
