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

from chaos.audit.audit import Audit, Choice
from chaos.audit.budget import Budget
from chaos.audit.card import Card
from chaos.audit.folder import AuditFolder
from chaos.audit.group import chosen_groups
from chaos.audit.lanes import lanes_for
from chaos.audit.plans import base_plan, begun_again_by, under_launcher
from chaos.audit.retries import SETTINGS
from chaos.errors import ChaosError, UsageError
from chaos.launch.open import open_launcher
from chaos.model.launcher import FACTS, USUAL, Launcher, Restart
from chaos.model.plan import Confined, Plan
from chaos.model.scenario import Tier
from chaos.model.severity import Severity
from chaos.record import Record
from chaos.report.screen import bare_table, numbers
from chaos.run.clock import Clock
from chaos.run.machine import usable_cpus
from chaos.selftest.score import Rate
from chaos.selftest.trials import says

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
    launcher: Launcher = USUAL
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

    def is_named_by(self, check: str, parts: Sequence[str], text: str) -> bool:
        """Return whether a finding of this check and these parts, with this text, names the bug."""
        whole = " ".join([check, *parts, text])
        named = any(says(whole, part) for part in self.parts)
        return check in self.checks or named or any(word in text for word in self.words)


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
        raise UsageError(f"this is no corpus: {error}", hint, place=str(file)) from error
    for job in jobs:
        if not job.script(folder).is_file():
            raise UsageError(
                f"the script of {job.name} is missing", "Add it.", place=str(job.script(folder))
            )
    return jobs


def answer_of(job: CorpusJob, card: Card) -> CorpusAnswer:
    """Return the answer of a card about a job."""
    first = card.findings[0] if card.findings else None
    named_by: list[tuple[str, tuple[str, ...], str]] = []
    if card.retries.is_finding:
        named_by.append((SETTINGS, (), card.retries.sentence))
    if first is not None:
        named_by.append((first.defect.check, first.defect.parts, first.headline))
    return CorpusAnswer(
        job=job.name,
        verdict=card.word,
        sentence=card.sentence if first is None else first.headline,
        named=any(job.is_named_by(*one) for one in named_by),
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

    def rows(self, *, wrong: bool) -> list[tuple[CorpusJob, CorpusAnswer]]:
        """Return the jobs with a bug, or those without, each with its answer."""
        by_name = {answer.job: answer for answer in self.answers}
        return [
            (job, by_name[job.name])
            for job in self.jobs
            if job.name in by_name and (job.bug is not None) == wrong
        ]

    def _share(self, *, wrong: bool, of: Callable[[CorpusAnswer], bool]) -> Rate:
        rows = self.rows(wrong=wrong)
        return Rate(sum(of(answer) for _, answer in rows), len(rows))

    @property
    def found(self) -> Rate:
        """The jobs with a bug in which something was found."""
        return self._share(wrong=True, of=lambda answer: answer.verdict == "fail")

    @property
    def named(self) -> Rate:
        """The jobs with a bug whose first finding names it."""
        return self._share(wrong=True, of=lambda answer: answer.named)

    @property
    def blamed(self) -> Rate:
        """The right jobs in which something was found."""
        return self._share(wrong=False, of=lambda answer: answer.verdict == "fail")

    @property
    def undecided(self) -> Rate:
        """The right jobs with an inconclusive answer."""
        return self._share(wrong=False, of=lambda a: a.verdict in ("inconclusive", "refused"))

    @property
    def false_alarms(self) -> Rate:
        """The runs of right jobs that were called wrong."""
        rows = [answer for _, answer in self.rows(wrong=False)]
        return Rate(sum(a.blamed for a in rows), sum(a.runs for a in rows))

    @property
    def green_without_resume(self) -> tuple[str, ...]:
        """The jobs that passed although no restart resumed from a checkpoint."""
        return tuple(a.job for a in self.answers if a.verdict == "pass" and not a.resumed)

    @property
    def exit_code(self) -> int:
        """1: a right job blamed, a bug passed, or a pass without a resume. 2: undecided."""
        passed = any(answer.verdict == "pass" for _, answer in self.rows(wrong=True))
        if passed or self.blamed.count or self.green_without_resume:
            return 1
        dishonest = [
            job for job, a in self.rows(wrong=False) if a.verdict != "pass" and not job.honest
        ]
        return 2 if dishonest or self.found.count < self.found.total else 0

    def to_json(self) -> str:
        return json.dumps(
            {
                "exit_code": self.exit_code,
                "seconds": self.seconds,
                "found": self.found.to_json(),
                "named": self.named.to_json(),
                "blamed": self.blamed.to_json(),
                "undecided": self.undecided.to_json(),
                "false_alarms": self.false_alarms.to_json(),
                "green_without_resume": list(self.green_without_resume),
                "skipped": self.skipped,
                "answers": [answer.model_dump(mode="json") for answer in self.answers],
            },
            indent=2,
        )


def chosen_jobs(jobs: Sequence[CorpusJob], names: Sequence[str]) -> tuple[CorpusJob, ...]:
    """Return the jobs of these names, all without names; raises `UsageError` for another name."""
    known = {job.name: job for job in jobs}
    for name in names:
        if name not in known:
            raise UsageError(f"there is no job '{name}'", "See corpus.yaml.", place="--only")
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

    def answers(self, jobs: Sequence[CorpusJob]) -> Iterator[CorpusAnswer]:
        """Return one answer per job, as they come."""
        return map(self._answer, jobs)

    def _answer(self, job: CorpusJob) -> CorpusAnswer:
        plan = self._plan(job)
        folder = AuditFolder.create(self.reports, job.name, plan, self.env)
        confined = Confined(folder=str(folder.path))
        plan = plan.model_copy(update={"confined": confined})
        of_crashes = Choice(self.seed, groups=chosen_groups((), "crash"), question="crash")
        try:
            with open_launcher(job.launcher, self.console) as backend:
                card = Audit(
                    plan,
                    backend,
                    folder,
                    self.clock,
                    Choice(self.seed) if plan.job.facts.loses_nodes else of_crashes,
                    Budget(self.seconds, self.runs),
                    follows_script=FACTS[job.launcher].sizes_itself,
                    retries=job.retries,
                    lanes=lambda n: self.lanes or lanes_for(usable_cpus(), workers=n),
                ).run()
        except ChaosError as error:
            return CorpusAnswer(job=job.name, verdict="refused", sentence=str(error))
        except Exception as error:  # noqa: BLE001 - an answer like any other; the rest is audited
            failed = f"chaos itself failed: {type(error).__name__}: {error}"
            return CorpusAnswer(job=job.name, verdict="refused", sentence=failed)
        return answer_of(job, card)

    def _plan(self, job: CorpusJob) -> Plan:
        script, facts = job.script(self.folder), FACTS[job.launcher]
        plan = base_plan(
            script,
            job.args,
            cwd=script.parent,
            seed=self.seed,
            workers=facts.usual_workers if facts.sizes_itself else job.workers,
        )
        plan = begun_again_by(under_launcher(plan, job.launcher, job.args), job.restart, ())
        return plan.model_copy(update={"storage": job.tier})


# -- in a terminal ------------------------------------------------------------------------------

_MARKS = {"pass": ("pass", ""), "fail": ("fail", "red"), "refused": ("refused", "yellow")}


def show_corpus(score: CorpusScore) -> RenderableType:
    """Return both tables, every wrong answer, and the figures."""
    lines: list[RenderableType] = []
    for title, wrong in (("job with a bug", True), ("right job", False)):
        rows = score.rows(wrong=wrong)
        if rows:
            lines += [_table(title, rows), Text("")]
    for wrong in (True, False):
        for job, answer in score.rows(wrong=wrong):
            if not is_as_due(job, answer):
                lines += [Text(f"{job.name}: {answer.verdict}", style="bold")]
                lines += [Text(f"  {answer.sentence}")]
                lines += [Text(f"  truth: {job.bug or job.odd}"), Text("")]
    return Group(*lines, Text("\n".join(figures(score))))


def figures(score: CorpusScore) -> list[str]:
    """Return the counts, each with its 95 % interval, a line each."""
    lines = []
    if score.found.total:
        lines += [f"bugs found           {score.found}", f"named right          {score.named}"]
    if score.blamed.total:
        lines += [
            f"right jobs blamed    {score.blamed}",
            f"right, inconclusive  {score.undecided}",
            f"false alarms in runs {score.false_alarms}",
        ]
    if score.green_without_resume:
        lines.append(f"pass without a resume: {', '.join(score.green_without_resume)}")
    lines += [f"not run: {name}, {why}" for name, why in score.skipped.items()]
    return [*lines, f"{len(score.answers)} audits, {score.seconds:.0f} s"]


def is_as_due(job: CorpusJob, answer: CorpusAnswer) -> bool:
    """Return whether an answer is right, and names the bug rightly."""
    if job.bug is not None:
        return answer.verdict == "fail" and answer.named
    return answer.verdict == "pass" or (job.honest is not None and answer.verdict != "fail")


def _table(title: str, rows: list[tuple[CorpusJob, CorpusAnswer]]) -> Table:
    reason = "named" if rows[0][0].bug else "honest reason"
    ranks, runs, resumed = numbers("ranks", "runs", "resumed")
    head = Column(title, no_wrap=True)
    table = bare_table(head, ranks, "answer", reason, runs, resumed)
    for job, answer in rows:
        words, style = _MARKS.get(answer.verdict, (answer.verdict, "yellow"))
        note = ("yes" if answer.named else "no") if job.bug else (job.honest or "")
        table.add_row(
            job.name,
            str(job.workers),
            Text(words, style=style),
            note if answer.verdict != "pass" else "",
            str(answer.runs),
            str(answer.resumed),
        )
    return table
