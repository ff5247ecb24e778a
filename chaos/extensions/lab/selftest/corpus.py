"""A corpus of jobs with a known truth: its file, the audits of its jobs, and their score."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError
from rich.console import Console, Group, RenderableType
from rich.table import Column, Table
from rich.text import Text
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from chaos.audit.audit import Audit, SiteChoice
from chaos.audit.budget import Budget
from chaos.audit.card import Card
from chaos.audit.folder import AuditFolder
from chaos.audit.lanes import count_lanes
from chaos.audit.plans import build_base_plan, set_launcher, set_restart
from chaos.audit.retries import SETTINGS
from chaos.audit.site_category import select_site_categories
from chaos.errors import ChaosError, UsageError
from chaos.extensions.lab.selftest.runs import mentions_part
from chaos.extensions.lab.selftest.score import Rate
from chaos.launch.backends import open_launcher
from chaos.model.launcher import DEFAULT_LAUNCHER, LAUNCHER_FACTS, Launcher
from chaos.model.launcher_facts import Restart
from chaos.model.plan import Confined, Plan
from chaos.model.scenario import Tier
from chaos.model.severity import Severity
from chaos.record import Record
from chaos.report.screen import ConsoleAnnouncer, build_bare_table, build_number_columns
from chaos.run.clock import Clock
from chaos.run.machine import usable_cpus

FILE = "corpus.yaml"
RETRIES = 3  # few jobs of others name any: that is no bug that a corpus is about
AuditVerdict: TypeAlias = Literal["pass", "fail", "inconclusive", "refused"]


class CorpusJob(Record):
    """A script with a known truth.

    A finding names the bug rightly if it is of one of the `checks`, or if its text names one of the
    `parts` of the state or one of the `words`.
    """

    name: str
    workers: int
    launcher: Launcher = DEFAULT_LAUNCHER
    #: what `--tier` says, by folder
    tier: dict[str, Tier] = Field(default_factory=dict)
    #: what `--restart` says
    restart: Restart | None = None
    #: the defect in one sentence; a right job has none
    bug: str | None = None
    checks: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    severity: Severity | None = None
    #: the restarts that can show the bug
    shows: str = ""
    #: what looks wrong in a right job
    odd: str = ""
    #: the reason why an inconclusive answer is fair
    honest: str | None = None
    #: the reason why a place may have another answer in the next run
    varies: str | None = None
    #: modules that the job imports
    needs: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    #: the field report that it reproduces
    source: str | None = None
    #: the one whose own code, as it is released, holds the defect, with its version
    library: str | None = None
    #: what `--retries` says, None where the truth is about the job's own
    retries: int | None = RETRIES

    def script(self, folder: Path) -> Path:
        """Return the file, below the corpus's folder."""
        return folder / "jobs" / ("right" if self.bug is None else "wrong") / f"{self.name}.py"

    @property
    def missing(self) -> tuple[str, ...]:
        """The needed modules that are not installed."""
        return tuple(name for name in self.needs if find_spec(name) is None)

    def matches_finding(self, check: str, parts: Sequence[str], text: str) -> bool:
        """Return whether a finding of this check and these parts, with this text, names the bug."""
        full_text = " ".join([check, *parts, text])
        is_part_named = any(mentions_part(full_text, part) for part in self.parts)
        return check in self.checks or is_part_named or any(word in text for word in self.words)


class CorpusAnswer(Record):
    """The result of the audit of one job."""

    job: str
    verdict: AuditVerdict
    sentence: str
    #: its first finding names the bug
    named: bool = False
    severity: Severity | None = None
    runs: int = 0
    #: those of the `runs` that were called wrong
    blamed: int = 0
    #: the restarts that resumed from a checkpoint
    resumed: int = 0
    seconds: float = 0.0
    folder: str | None = None


def load_corpus(folder: Path) -> tuple[CorpusJob, ...]:
    """Return the jobs of a corpus, in the order of its file.

    Raises `UsageError` for a file that is not there or cannot be read, and for
    a job whose script is missing.
    """
    file = folder / FILE
    try:
        rows = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
        jobs = TypeAdapter(tuple[CorpusJob, ...]).validate_json(json.dumps(rows))
    except (OSError, YAMLError, ValidationError) as error:
        hint = f"A corpus is a folder with {FILE}: a list of jobs, each with name and workers."
        raise UsageError(f"this is no corpus: {error}", hint, location=str(file)) from error
    for job in jobs:
        if not job.script(folder).is_file():
            raise UsageError(
                f"the script of {job.name} is missing", "Add it.", location=str(job.script(folder))
            )
    return jobs


def build_answer(job: CorpusJob, card: Card) -> CorpusAnswer:
    """Return the answer of a card about a job."""
    first_finding = card.findings[0] if card.findings else None
    findings: list[tuple[str, tuple[str, ...], str]] = []
    if card.retries.is_finding:
        findings.append((SETTINGS, (), card.retries.sentence))
    if first_finding is not None:
        findings.append(
            (first_finding.defect.check, first_finding.defect.parts, first_finding.headline)
        )
    return CorpusAnswer(
        job=job.name,
        verdict=card.word,
        sentence=card.sentence if first_finding is None else first_finding.headline,
        named=any(job.matches_finding(*finding) for finding in findings),
        severity=card.severity,
        runs=len(card.runs),
        blamed=card.broken,
        resumed=card.resumed,
        seconds=card.seconds,
        folder=card.folder,
    )


@dataclass(frozen=True)
class CorpusScore:
    """All answers."""

    jobs: tuple[CorpusJob, ...]
    answers: tuple[CorpusAnswer, ...]
    #: the jobs that were not run, with the reason
    skipped: dict[str, str]
    seconds: float = 0.0

    def list_rows(self, *, wrong: bool) -> list[tuple[CorpusJob, CorpusAnswer]]:
        """Return the jobs with a bug, or those without, each with its answer."""
        by_name = {answer.job: answer for answer in self.answers}
        return [
            (job, by_name[job.name])
            for job in self.jobs
            if job.name in by_name and (job.bug is not None) == wrong
        ]

    def _measure_rate(self, *, wrong: bool, predicate: Callable[[CorpusAnswer], bool]) -> Rate:
        rows = self.list_rows(wrong=wrong)
        return Rate(sum(predicate(answer) for _, answer in rows), len(rows))

    @property
    def detection_rate(self) -> Rate:
        """The jobs with a bug in which something was found."""
        return self._measure_rate(wrong=True, predicate=lambda answer: answer.verdict == "fail")

    @property
    def naming_rate(self) -> Rate:
        """The jobs with a bug whose first finding names it."""
        return self._measure_rate(wrong=True, predicate=lambda answer: answer.named)

    @property
    def blame_rate(self) -> Rate:
        """The right jobs in which something was found."""
        return self._measure_rate(wrong=False, predicate=lambda answer: answer.verdict == "fail")

    @property
    def undecided_rate(self) -> Rate:
        """The right jobs with an inconclusive answer."""
        return self._measure_rate(
            wrong=False, predicate=lambda a: a.verdict in ("inconclusive", "refused")
        )

    @property
    def false_alarm_rate(self) -> Rate:
        """The runs of right jobs that were called wrong."""
        rows = [answer for _, answer in self.list_rows(wrong=False)]
        return Rate(sum(a.blamed for a in rows), sum(a.runs for a in rows))

    @property
    def green_without_resume(self) -> tuple[str, ...]:
        """The jobs that passed although no restart resumed from a checkpoint."""
        return tuple(a.job for a in self.answers if a.verdict == "pass" and not a.resumed)

    @property
    def exit_code(self) -> int:
        """1: a right job blamed, a bug passed, or a pass without a resume. 2: undecided."""
        has_passed_bug = any(answer.verdict == "pass" for _, answer in self.list_rows(wrong=True))
        if has_passed_bug or self.blame_rate.count or self.green_without_resume:
            return 1
        unexplained_jobs = [
            job for job, a in self.list_rows(wrong=False) if a.verdict != "pass" and not job.honest
        ]
        return 2 if unexplained_jobs or self.detection_rate.count < self.detection_rate.total else 0

    def to_json(self) -> str:
        return json.dumps(
            {
                "exit_code": self.exit_code,
                "seconds": self.seconds,
                "found": self.detection_rate.to_json(),
                "named": self.naming_rate.to_json(),
                "blamed": self.blame_rate.to_json(),
                "undecided": self.undecided_rate.to_json(),
                "false_alarms": self.false_alarm_rate.to_json(),
                "green_without_resume": list(self.green_without_resume),
                "skipped": self.skipped,
                "answers": [answer.model_dump(mode="json") for answer in self.answers],
            },
            indent=2,
        )


def select_jobs(jobs: Sequence[CorpusJob], names: Sequence[str]) -> tuple[CorpusJob, ...]:
    """Return the jobs of these names, all without names; raises `UsageError` for another name."""
    jobs_by_name = {job.name: job for job in jobs}
    for name in names:
        if name not in jobs_by_name:
            raise UsageError(f"there is no job '{name}'", "See corpus.yaml.", location="--only")
    return tuple(job for job in jobs if not names or job.name in names)


# -- audits -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CorpusAudits:
    """Audits of the jobs of the corpus in `folder`, each as a user would start it."""

    folder: Path
    reports: Path
    env: dict[str, Any]
    console: Console
    clock: Clock
    seed: int = 0
    runs: int | None = None
    seconds: float | None = 60.0
    lanes: int | None = None

    def audit_jobs(self, jobs: Sequence[CorpusJob]) -> Iterator[CorpusAnswer]:
        """Return one answer per job, as they come."""
        return map(self._audit_job, jobs)

    def _audit_job(self, job: CorpusJob) -> CorpusAnswer:
        plan = self._build_plan(job)
        folder = AuditFolder.create(self.reports, job.name, plan, self.env)
        confined = Confined(folder=str(folder.path))
        plan = plan.replace(confined=confined)
        crash_choice = SiteChoice(
            self.seed, groups=select_site_categories((), "crash"), question="crash"
        )
        try:
            with open_launcher(job.launcher, ConsoleAnnouncer(self.console)) as backend:
                card = Audit(
                    plan,
                    backend,
                    folder,
                    self.clock,
                    SiteChoice(self.seed)
                    if plan.job.launcher_facts.replaces_lost_nodes
                    else crash_choice,
                    Budget(self.seconds, self.runs),
                    follows_script=LAUNCHER_FACTS[job.launcher].workers.script_sets_count,
                    retries=job.retries,
                    count_lanes=lambda n: self.lanes or count_lanes(usable_cpus(), workers=n),
                ).run()
        except ChaosError as error:
            return CorpusAnswer(job=job.name, verdict="refused", sentence=str(error))
        except Exception as error:  # noqa: BLE001 - an answer like any other; the rest is audited
            failure_text = f"chaos itself failed: {type(error).__name__}: {error}"
            return CorpusAnswer(job=job.name, verdict="refused", sentence=failure_text)
        return build_answer(job, card)

    def _build_plan(self, job: CorpusJob) -> Plan:
        script, facts = job.script(self.folder), LAUNCHER_FACTS[job.launcher]
        plan = build_base_plan(
            script,
            job.args,
            cwd=script.parent,
            seed=self.seed,
            workers=facts.workers.default_count if facts.workers.script_sets_count else job.workers,
        )
        plan = set_restart(set_launcher(plan, job.launcher, job.args), job.restart, ())
        return plan.replace(storage=job.tier)


# -- in a terminal ------------------------------------------------------------------------------

_MARKS = {"pass": ("pass", ""), "fail": ("fail", "red"), "refused": ("refused", "yellow")}


def render_corpus(score: CorpusScore) -> RenderableType:
    """Return both tables, every wrong answer, and the figures."""
    lines: list[RenderableType] = []
    for title, wrong in (("job with a bug", True), ("right job", False)):
        rows = score.list_rows(wrong=wrong)
        if rows:
            lines += [_build_table(title, rows), Text("")]
    for wrong in (True, False):
        for job, answer in score.list_rows(wrong=wrong):
            if not is_answer_right(job, answer):
                lines += [Text(f"{job.name}: {answer.verdict}", style="bold")]
                lines += [Text(f"  {answer.sentence}")]
                lines += [Text(f"  truth: {job.bug or job.odd}"), Text("")]
    return Group(*lines, Text("\n".join(list_figures(score))))


def list_figures(score: CorpusScore) -> list[str]:
    """Return the counts, each with its 95 % interval, a line each."""
    lines = []
    if score.detection_rate.total:
        lines += [
            f"bugs found           {score.detection_rate}",
            f"named right          {score.naming_rate}",
        ]
    if score.blame_rate.total:
        lines += [
            f"right jobs blamed    {score.blame_rate}",
            f"right, inconclusive  {score.undecided_rate}",
            f"false alarms in runs {score.false_alarm_rate}",
        ]
    if score.green_without_resume:
        lines.append(f"pass without a resume: {', '.join(score.green_without_resume)}")
    lines += [f"not run: {name}, {why}" for name, why in score.skipped.items()]
    return [*lines, f"{len(score.answers)} audits, {score.seconds:.0f} s"]


def is_answer_right(job: CorpusJob, answer: CorpusAnswer) -> bool:
    """Return whether an answer is right, and names the bug rightly."""
    if job.bug is not None:
        return answer.verdict == "fail" and answer.named
    return answer.verdict == "pass" or (job.honest is not None and answer.verdict != "fail")


def _build_table(title: str, rows: list[tuple[CorpusJob, CorpusAnswer]]) -> Table:
    reason = "named" if rows[0][0].bug else "honest reason"
    ranks, runs, resumed = build_number_columns("ranks", "runs", "resumed")
    head = Column(title, no_wrap=True)
    table = build_bare_table(head, ranks, "answer", reason, runs, resumed)
    for job, answer in rows:
        words, style = _MARKS.get(answer.verdict, (answer.verdict, "yellow"))
        note = job.honest or ""
        if job.bug:
            note = "yes" if answer.named else "no"
        table.add_row(
            job.name,
            str(job.workers),
            Text(words, style=style),
            note if answer.verdict != "pass" else "",
            str(answer.runs),
            str(answer.resumed),
        )
    return table
