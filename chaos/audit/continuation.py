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

from chaos.audit.baseline_runs import CleanResult
from chaos.audit.card import AuditChanges, Card
from chaos.audit.determinism import compare_clean_runs
from chaos.audit.job_profile import JobProfile
from chaos.audit.notes import Note, note
from chaos.audit.run_row import RunRow
from chaos.audit.site_groups import FaultSite, PlaceKey
from chaos.audit.site_queue import EarlierSites, SiteQueue
from chaos.audit.site_sample import find_existing_sites
from chaos.errors import HistoryError
from chaos.model.history import History, build_repeat_name
from chaos.model.plan import Plan
from chaos.plan.digest import baseline_digest
from chaos.report_store import AUDIT
from chaos.run.directory import RunDirectory
from chaos.run.display_path import format_path
from chaos.run.environment import find_decisive_versions
from chaos.run.job_code import digest_job_code
from chaos.run.record_file import read_small_file
from chaos.wording import plural

SETTINGS = (".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf")
SETTINGS_BYTES = 1 << 20


@dataclass(frozen=True)
class EarlierAudit:
    """An audit as it was written down."""

    path: Path
    card: Card
    baseline: History

    @classmethod
    def find_latest(cls, reports: Path, plan: Plan) -> "EarlierAudit | None":
        """Return the last audit of the plan's script with its arguments; None if there is none.

        One that cannot be read, or that another version wrote, is passed over.
        """
        folders = sorted((reports / "audits").glob(f"{plan.slug}-*"), reverse=True)
        return next((audit for path in folders if (audit := cls._load_audit(path, plan))), None)

    @classmethod
    def _load_audit(cls, path: Path, plan: Plan) -> "EarlierAudit | None":
        directory = RunDirectory(path.resolve())
        try:
            if _identify_job(directory.load_plan()) != _identify_job(plan):
                return None
            card = Card.from_json(read_small_file(directory.path / AUDIT))
            return cls(directory.path, card, directory.load_history(build_repeat_name(1)))
        except (HistoryError, OSError, ValidationError, ValueError, RecursionError):
            return None


def _identify_job(plan: Plan) -> tuple[object, ...]:
    return plan.job.source, plan.job.args, plan.job.launcher, plan.job.fit, plan.cwd


def digest_inputs(clean: CleanResult, *, retries: int | None) -> str:
    """Return a digest of what the result at a place is known to follow from, the place apart."""
    plan = clean.plan
    job_digest = baseline_digest(
        plan.build_baseline_plan(), code=digest_job_code(plan), versions=find_decisive_versions()
    )
    inputs = [job_digest, _digest_settings(plan), plan.expect.model_dump(mode="json"), retries]
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]


def _digest_settings(plan: Plan) -> dict[str, str]:
    """Return digests of the files that may hold settings of a job, beside it or one folder below.

    Some are read by a restart alone, and show in no clean run.
    """
    folder = Path(plan.job.script).parent if plan.job.script else Path(plan.cwd)
    files = (file for pattern in ("*", "*/*") for file in folder.glob(pattern))
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
    is_unchanged: bool

    @classmethod
    def from_audit(
        cls, earlier: EarlierAudit, clean: CleanResult, *, inputs_digest: str
    ) -> "Continuation":
        """Return the last audit, seen from the clean runs of this one."""
        is_unchanged = (
            earlier.card.basis == inputs_digest
            and clean.repetition.is_exact
            and compare_clean_runs(earlier.baseline, clean.baseline.runs[0]).is_exact
        )
        return cls(earlier, is_unchanged)

    @property
    def failed_names(self) -> dict[PlaceKey, str]:
        """The names of the places, and of the runs of several places, that were wrong."""
        return {
            row.place.key: row.name if row.is_combined else f"{row.group}: {row.name}"
            for row in self.earlier.card.wrong
        }

    @property
    def right_rows(self) -> dict[PlaceKey, RunRow]:
        """The rows of the places that were right."""
        return {row.place.key: row for row in self.earlier.card.runs if row.is_right}

    @property
    def earlier_sites(self) -> EarlierSites:
        """The places by their fate in the last audit, from which the order of this one follows."""
        card = self.earlier.card
        return EarlierSites(
            failed=frozenset(self.failed_names),
            examples=frozenset(finding.smallest.place.key for finding in card.findings),
            right=frozenset(self.right_rows),
            combined=tuple(row.place for row in card.wrong if row.is_combined),
            unchanged_rows=tuple(self._renumber_right_rows()) if self.is_unchanged else (),
        )

    def _renumber_right_rows(self) -> Iterator[RunRow]:
        """Yield the rows of right places, with numbers that no run of this audit has."""
        folder, numbers = format_path(self.earlier.path), dict[tuple[str, int], int]()
        for row in self.right_rows.values():
            number = numbers.setdefault((row.earlier, row.number), -1 - len(numbers))
            yield row.replace(number=number, earlier=row.earlier or folder)

    def find_places(self, profile: JobProfile) -> Iterator[FaultSite]:
        """Yield the places that failed, or that hold still, and that the job has."""
        rows = [row for row in self.earlier.card.wrong if not row.is_combined]
        rows += self.right_rows.values() if self.is_unchanged else ()
        return find_existing_sites(
            profile, [row.place for row in rows], seed=self.earlier.card.seed
        )

    @property
    def note(self) -> Note:
        """A note: how many places failed or were right in the last audit, and when they come."""
        treatment = "tried last, since the job, or what it runs on, may have changed"
        if self.is_unchanged:
            treatment = "not tried again as long as nothing differs: the job is the same"
        failed, right = (
            plural(len(names), "place") for names in (self.failed_names, self.right_rows)
        )
        return note(
            f"continues {format_path(self.earlier.path)}, where {failed} failed, tried first, and "
            f"{right} came out right, {treatment}"
        )

    def compare_runs(self, runs: Sequence[RunRow], queue: SiteQueue) -> AuditChanges:
        """Return what has become of the last audit's places, by the runs of this one."""
        failed_names, run_by_key = self.failed_names, {run.place.key: run for run in runs}
        status_by_key = {key: run.status for key, run in run_by_key.items()}
        status_by_key |= dict.fromkeys((place.key for place in queue.mended_sites), "pass")
        current_keys = {place.key for place in (*queue.sites, *queue.earlier_sites.combined)}
        open_keys = [key for key in failed_names if status_by_key.get(key) not in ("pass", "fail")]
        new_keys = [
            key for key, run in run_by_key.items() if run.is_wrong and key not in failed_names
        ]
        names = {
            **{key: f"{run.group}: {run.name}" for key, run in run_by_key.items()},
            **failed_names,
        }

        def list_names(keys: Iterable[PlaceKey]) -> tuple[str, ...]:
            return tuple(names[key] for key in keys)

        return AuditChanges(
            folder=format_path(self.earlier.path),
            mended=list_names(key for key in failed_names if status_by_key.get(key) == "pass"),
            still=list_names(key for key in failed_names if status_by_key.get(key) == "fail"),
            new=list_names(new_keys),
            broken=list_names(key for key in new_keys if key in self.right_rows),
            untold=list_names(key for key in open_keys if key in current_keys),
            gone=list_names(key for key in open_keys if key not in current_keys),
            kept=len(queue.earlier_sites.unchanged_rows),
            is_unexplained=self.is_unchanged and "pass" in map(status_by_key.get, failed_names),
        )
