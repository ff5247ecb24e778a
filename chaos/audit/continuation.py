"""A second audit of a job: what failed in the last one comes first, then what it did not try.

What was right there is tried again after the rest: the job may have changed. Where it must come out
the same, it is not tried at all, and its rows are evidence here as well. That is so if the job's
code, its settings, the packages and what is expected are the same, the job repeats itself to the
last bit, and the clean run of this audit is that of the last one, to the last bit.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from chaos.audit.baseline_runs import Clean
from chaos.audit.card import Card, Since
from chaos.audit.determinism import repetition
from chaos.audit.job_profile import JobProfile
from chaos.audit.notes import Note, note
from chaos.audit.place_groups import FaultPlace, PlaceKey
from chaos.audit.places import still_there
from chaos.audit.queue import Known, Queue
from chaos.audit.run_row import RunRow
from chaos.errors import HistoryError
from chaos.model.history import History, repeat_name
from chaos.model.plan import Plan
from chaos.plan.digest import baseline_digest
from chaos.run.directory import RunDirectory
from chaos.run.environment import decisive_versions
from chaos.run.job_code import digest_job_code
from chaos.run.record_file import read_record
from chaos.run.shown import shown
from chaos.shelf import AUDIT
from chaos.words import plural

SETTINGS = (".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf")
SETTINGS_BYTES = 1 << 20


@dataclass(frozen=True)
class EarlierAudit:
    """An audit as it was written down."""

    path: Path
    card: Card
    baseline: History

    @classmethod
    def last(cls, reports: Path, plan: Plan) -> "EarlierAudit | None":
        """Return the last audit of the plan's script with its arguments; None if there is none.

        One that cannot be read, or that another version wrote, is passed over.
        """
        folders = sorted((reports / "audits").glob(f"{plan.slug}-*"), reverse=True)
        return next((found for path in folders if (found := cls._at(path, plan))), None)

    @classmethod
    def _at(cls, path: Path, plan: Plan) -> "EarlierAudit | None":
        directory = RunDirectory(path.resolve())
        try:
            if _call(directory.load_plan()) != _call(plan):
                return None
            card = Card.from_json(read_record(directory.path / AUDIT))
            return cls(directory.path, card, directory.load_history(repeat_name(1)))
        except (HistoryError, OSError, ValidationError, ValueError, RecursionError):
            return None


def _call(plan: Plan) -> tuple[object, ...]:
    return plan.job.source, plan.job.args, plan.job.launcher, plan.job.fit, plan.cwd


def basis_of(clean: Clean, *, retries: int | None) -> str:
    """Return a digest of what the result at a place is known to follow from, the place apart."""
    plan = clean.plan
    job = baseline_digest(plan.baseline(), code=digest_job_code(plan), versions=decisive_versions())
    stated = [job, _settings_beside(plan), plan.expect.model_dump(mode="json"), retries]
    return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()[:16]


def _settings_beside(plan: Plan) -> dict[str, str]:
    """Return digests of the files that may hold settings of a job, beside it or one folder below.

    Some are read by a restart alone, and show in no clean run.
    """
    around = Path(plan.job.script).parent if plan.job.script else Path(plan.cwd)
    files = (file for pattern in ("*", "*/*") for file in around.glob(pattern))
    return {
        str(file): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.suffix in SETTINGS and file.is_file() and file.stat().st_size <= SETTINGS_BYTES
    }


@dataclass(frozen=True)
class Continuation:
    """The last audit, as seen from this one."""

    earlier: EarlierAudit
    #: whether what was right there must be right here
    holds: bool

    @classmethod
    def of(cls, earlier: EarlierAudit, clean: Clean, *, basis: str) -> "Continuation":
        """Return the last audit, seen from the clean runs of this one."""
        holds = (
            earlier.card.basis == basis
            and clean.repetition.is_exact
            and repetition(earlier.baseline, clean.baseline.runs[0]).is_exact
        )
        return cls(earlier, holds)

    @property
    def failed(self) -> dict[PlaceKey, str]:
        """The names of the places, and of the runs of several places, that were wrong."""
        return {
            row.place.key: row.name if row.is_combined else f"{row.group}: {row.name}"
            for row in self.earlier.card.wrong
        }

    @property
    def right(self) -> dict[PlaceKey, RunRow]:
        """The rows of the places that were right."""
        return {row.place.key: row for row in self.earlier.card.runs if row.is_right}

    @property
    def known(self) -> Known:
        """The places by their fate in the last audit, from which the order of this one follows."""
        card = self.earlier.card
        return Known(
            failed=frozenset(self.failed),
            examples=frozenset(finding.smallest.place.key for finding in card.findings),
            right=frozenset(self.right),
            combined=tuple(row.place for row in card.wrong if row.is_combined),
            kept=tuple(self._kept()) if self.holds else (),
        )

    def _kept(self) -> Iterator[RunRow]:
        """Yield the rows of right places, with numbers that no run of this audit has."""
        folder, numbers = shown(self.earlier.path), dict[tuple[str, int], int]()
        for row in self.right.values():
            number = numbers.setdefault((row.earlier, row.number), -1 - len(numbers))
            yield row.model_copy(update={"number": number, "earlier": row.earlier or folder})

    def places(self, profile: JobProfile) -> Iterator[FaultPlace]:
        """Yield the places that failed, or that hold still, and that the job has."""
        rows = [row for row in self.earlier.card.wrong if not row.is_combined]
        rows += self.right.values() if self.holds else ()
        return still_there(profile, [row.place for row in rows], seed=self.earlier.card.seed)

    @property
    def note(self) -> Note:
        """A note: how many places failed or were right in the last audit, and when they come."""
        then = "tried last, since the job, or what it runs on, may have changed"
        if self.holds:
            then = "not tried again as long as nothing differs: the job is the same"
        failed, right = (plural(len(each), "place") for each in (self.failed, self.right))
        return note(
            f"continues {shown(self.earlier.path)}, where {failed} failed, tried first, and "
            f"{right} came out right, {then}"
        )

    def since(self, runs: Sequence[RunRow], queue: Queue) -> Since:
        """Return what has become of the last audit's places, by the runs of this one."""
        failed, now = self.failed, {run.place.key: run for run in runs}
        came_to = {key: run.status for key, run in now.items()}
        came_to |= dict.fromkeys((place.key for place in queue.mended), "pass")
        there = {place.key for place in (*queue.places, *queue.known.combined)}
        open_ = [key for key in failed if came_to.get(key) not in ("pass", "fail")]
        new = [key for key, run in now.items() if run.is_wrong and key not in failed]
        names = {**{key: f"{run.group}: {run.name}" for key, run in now.items()}, **failed}

        def named(keys: Iterable[PlaceKey]) -> tuple[str, ...]:
            return tuple(names[key] for key in keys)

        return Since(
            folder=shown(self.earlier.path),
            mended=named(key for key in failed if came_to.get(key) == "pass"),
            still=named(key for key in failed if came_to.get(key) == "fail"),
            new=named(new),
            broken=named(key for key in new if key in self.right),
            untold=named(key for key in open_ if key in there),
            gone=named(key for key in open_ if key not in there),
            kept=len(queue.known.kept),
            is_unexplained=self.holds and "pass" in map(came_to.get, failed),
        )
