"""Jobs with a known truth, and what audits of them answered.

A corpus is a folder with `corpus.yaml`, which lists the jobs, and their scripts
in `jobs/right` and `jobs/wrong` below it.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from chaos.audit.card import Card
from chaos.errors import UsageError
from chaos.model.severity import Severity
from chaos.record import Record
from chaos.selftest.interval import Share
from chaos.selftest.trial import says

FILE = "corpus.yaml"
Verdict: TypeAlias = Literal["pass", "fail", "inconclusive", "refused"]


class CorpusJob(Record):
    """A script with a known truth.

    `bug` says in one sentence what is wrong; a right job has none, and `odd`
    says what looks wrong about it. A finding names the bug rightly where it
    is of one of the `checks`, or its text names one of the `parts` of the state
    or one of the `words`. `shows`: the restarts that can show the bug.
    `honest`: the reason for which an inconclusive answer is fair. `needs` are
    modules that the job imports.
    """

    name: str
    workers: int
    bug: str | None = None
    checks: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    severity: Severity | None = None
    shows: str = ""
    odd: str = ""
    honest: str | None = None
    needs: tuple[str, ...] = ()
    args: tuple[str, ...] = ()

    def script(self, folder: Path) -> Path:
        """Return the file, below the corpus's folder."""
        return folder / "jobs" / ("right" if self.bug is None else "wrong") / f"{self.name}.py"

    @property
    def missing(self) -> tuple[str, ...]:
        """The modules it needs that are not installed."""
        return tuple(name for name in self.needs if find_spec(name) is None)

    def is_named_by(self, check: str, parts: Sequence[str], text: str) -> bool:
        """Return whether a finding of this check and these parts, with this text, names the bug."""
        told = " ".join([check, *parts, text])
        named = any(says(told, part) for part in self.parts)
        return check in self.checks or named or any(word in text for word in self.words)


class Answer(Record):
    """What an audit made of one job.

    `named`: its first finding names the bug. `resumed` counts restarts that went
    on from a checkpoint, `blamed` the runs that were called wrong of `runs`.
    """

    job: str
    verdict: Verdict
    sentence: str
    named: bool = False
    severity: Severity | None = None
    runs: int = 0
    blamed: int = 0
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


def answer_of(job: CorpusJob, card: Card) -> Answer:
    """Return what a card says of a job."""
    first = card.findings[0] if card.findings else None
    return Answer(
        job=job.name,
        verdict=("pass", "fail", "inconclusive")[card.exit_code],
        sentence=card.sentence if first is None else first.smallest.headline,
        named=first is not None
        and job.is_named_by(first.defect.check, first.defect.parts, first.smallest.headline),
        severity=card.severity,
        runs=len(card.runs),
        blamed=card.broken,
        resumed=card.resumed,
        seconds=card.seconds,
        folder=card.folder,
    )


@dataclass(frozen=True)
class CorpusScore:
    """All answers; `skipped` are the jobs that were not run, with the reason."""

    jobs: tuple[CorpusJob, ...]
    answers: tuple[Answer, ...]
    skipped: dict[str, str]
    seconds: float = 0.0

    def rows(self, *, wrong: bool) -> list[tuple[CorpusJob, Answer]]:
        """Return the jobs with a bug, or those without, each with its answer."""
        by_name = {answer.job: answer for answer in self.answers}
        return [
            (job, by_name[job.name])
            for job in self.jobs
            if job.name in by_name and (job.bug is not None) == wrong
        ]

    def _share(self, *, wrong: bool, of: Callable[[Answer], bool]) -> Share:
        rows = self.rows(wrong=wrong)
        return Share(sum(of(answer) for _, answer in rows), len(rows))

    @property
    def found(self) -> Share:
        """The jobs with a bug in which something was found."""
        return self._share(wrong=True, of=lambda answer: answer.verdict == "fail")

    @property
    def named(self) -> Share:
        """The jobs with a bug whose first finding names it."""
        return self._share(wrong=True, of=lambda answer: answer.named)

    @property
    def blamed(self) -> Share:
        """The right jobs in which something was found."""
        return self._share(wrong=False, of=lambda answer: answer.verdict == "fail")

    @property
    def undecided(self) -> Share:
        """The right jobs of which nothing could be said."""
        return self._share(wrong=False, of=lambda a: a.verdict in ("inconclusive", "refused"))

    @property
    def false_alarms(self) -> Share:
        """The runs of right jobs that were called wrong."""
        rows = [answer for _, answer in self.rows(wrong=False)]
        return Share(sum(a.blamed for a in rows), sum(a.runs for a in rows))

    @property
    def green_without_resume(self) -> tuple[str, ...]:
        """The jobs that passed although no restart went on from a checkpoint."""
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
        """Return everything for machines."""
        shares = {
            "found": self.found,
            "named": self.named,
            "blamed": self.blamed,
            "undecided": self.undecided,
            "false_alarms": self.false_alarms,
        }
        return json.dumps(
            {
                "exit_code": self.exit_code,
                "seconds": self.seconds,
                **{
                    name: {"count": s.count, "of": s.total, "interval_95": list(s.bounds)}
                    for name, s in shares.items()
                },
                "green_without_resume": list(self.green_without_resume),
                "skipped": self.skipped,
                "answers": [answer.model_dump(mode="json") for answer in self.answers],
            },
            indent=2,
        )


def chosen_jobs(jobs: Sequence[CorpusJob], names: Sequence[str]) -> tuple[CorpusJob, ...]:
    """Return the jobs of these names, all without any; `UsageError` for a name of none."""
    known = {job.name: job for job in jobs}
    for name in names:
        if name not in known:
            raise UsageError(f"there is no job '{name}'", "See corpus.yaml.", place="--only")
    return tuple(job for job in jobs if not names or job.name in names)
