"""The card of an audit and its files, made from the rows of its runs."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaos import __version__
from chaos.audit.baseline_runs import CleanResult
from chaos.audit.card import AuditChanges, AuditedJob, Card, Controls, Ended, ReplacedSetting
from chaos.audit.chains import join_places
from chaos.audit.finding import Finding, group_findings
from chaos.audit.folder import AuditFolder
from chaos.audit.job_profile import JobProfile
from chaos.audit.notes import Note, note
from chaos.audit.page import render_card, render_paragraph
from chaos.audit.plans import choose_retry_budget
from chaos.audit.repro import repro_text
from chaos.audit.retries import SETTINGS, Retries
from chaos.audit.run_row import Defect, DefectKey, RunRow
from chaos.audit.site_groups import FaultSite
from chaos.audit.site_order import find_missing_parts, find_part
from chaos.audit.site_queue import SiteQueue
from chaos.audit.site_sample import count_coverage, count_save_operations
from chaos.audit.table import label_columns
from chaos.check.grade import ACCEPTED
from chaos.check.results import WITHOUT_CONSEQUENCE
from chaos.model.masking import mask_value
from chaos.report.ci import render as render_junit
from chaos.report.outcome import SuiteRow, build_skipped_row, build_suite_row, find_versions
from chaos.run.display_path import format_portable_path
from chaos.wording import plural

_AUDIT_VALUES = {"name": "one of each run's own", "storage_path": "the folder of each run"}
_BUDGETS = ("max_failures", "max_preemption_failures")


def find_replaced_settings(
    profile: JobProfile, places: Sequence[FaultSite], *, by_command: bool = False
) -> Iterator[ReplacedSetting]:
    """Yield the settings that were replaced in clean runs, and retries that were raised.

    `by_command`: these are not of the script, whose command is started once more.
    """
    for name, script_value in profile.replaced.items():
        if script_value is None or _is_ray_default(name, str(script_value)) or name in _BUDGETS:
            continue
        audit_value = _AUDIT_VALUES.get(name, profile.settings.get(name, "as an audit needs it"))
        yield ReplacedSetting(name=name, before=str(script_value), now=str(audit_value))
    if not by_command and profile.facts.retries.budgets:
        yield from _find_raised_retries(profile, places)


def _is_ray_default(name: str, value: str) -> bool:
    """Return whether a setting's value is of Ray 2.60, since the script names none."""
    if name == "name":
        return value.startswith("ray_train_run-")
    return name == "storage_path" and value.endswith("/ray_results")


def _find_raised_retries(
    profile: JobProfile, places: Sequence[FaultSite]
) -> Iterator[ReplacedSetting]:
    """Yield the raised retries, only if a fault took more than the script allows."""
    budgets = [choose_retry_budget(place, profile) for place in places]
    for name in _BUDGETS:
        script_value = profile.find_setting(name)
        raised_counts = [
            count for limits in budgets if (count := getattr(limits, name)) != script_value
        ]
        if script_value is not None and raised_counts:
            span = (
                f"{min(raised_counts)}"
                if min(raised_counts) == max(raised_counts)
                else f"{min(raised_counts)} to {max(raised_counts)}"
            )
            yield ReplacedSetting(
                name=name, before=str(script_value), now=f"{span}, as many as the faults take"
            )


@dataclass(frozen=True)
class CardWriter:
    """The writer of an audit's results."""

    clean: CleanResult
    queue: SiteQueue
    folder: AuditFolder
    seed: int
    #: the command line that repeats it
    command: str
    retries: Retries
    #: a digest of all that the results follow from, by which a later audit knows what holds
    inputs_digest: str = ""
    changes: AuditChanges | None = None

    def create_card(
        self, runs: Sequence[RunRow], *, ended: Ended, seconds: float, limit: str | None = None
    ) -> Card:
        """Return the card of these runs, after all its files were written."""
        clean, card_findings = self.clean, group_findings(runs)
        for finding in card_findings:
            self._save_finding(finding)
        profile = self.queue.profile
        resumed_places = [run.place for run in runs if run.is_right and run.resumed]
        wanted_parts = {find_part(place, profile) for place in self.queue.sites} - {None}
        card = Card(
            version=__version__,
            backend=clean.plan.backend,
            seed=self.seed,
            command=self.command,
            folder=self.folder.display_path,
            ended=ended,
            seconds=seconds,
            versions=find_versions(self.folder.env),
            job=_build_job(clean),
            repetition=clean.repetition,
            notes=(*clean.notes, *_note_accepted(runs), *_note_latent(runs)),
            covered=count_coverage(profile, self.queue.sites, runs, seed=self.seed),
            save_steps=count_save_operations(profile, runs, seed=self.seed),
            runs=tuple(runs),
            findings=card_findings,
            question=self.queue.question,
            limit=limit,
            missing_parts=find_missing_parts(resumed_places, profile, wanted_parts=wanted_parts),
            hashes_apart=clean.hash_seed_difference,
            recoveries=clean.recoveries,
            accept=clean.plan.expect.accept,
            sampling=clean.plan.expect.sampling,
            has_tolerance=clean.plan.expect.loss_tolerance is not None,
            replaced=tuple(
                find_replaced_settings(
                    profile, _join_run_places(runs), by_command=clean.plan.job.restarts_by_command
                )
            ),
            columns=label_columns(profile.epoch_count),
            run_count=self.queue.run_count + len({run.number for run in runs if run.earlier}),
            retries=self.retries,
            basis=self.inputs_digest,
            since=self.changes,
        )
        self.write(card)
        self.folder.write("junit.xml", self._render_junit(runs))
        return card

    def add_controls(self, card: Card, controls: Controls) -> Card:
        """Return the card with the losses that were planted, and write it."""
        card = card.replace(controls=controls)
        self.write(card)
        self.folder.write("junit.xml", self._render_junit(card.runs, {"controls": str(controls)}))
        return card

    def write(self, card: Card) -> None:
        """Write the card as pages and as JSON."""
        self.folder.write("audit.json", card.to_json())
        self.folder.write("card.html", render_card(card))
        self.folder.write("summary.md", render_paragraph(card))

    def _save_finding(self, finding: Finding) -> None:
        """Write the reproduction, and complete the folder of the run that it comes from."""
        smallest = finding.smallest
        plan = self.folder.run_directory(smallest.number).load_plan()
        text = repro_text(
            plan,
            check=finding.defect.check,
            folder=self.folder.path / "repro",
            headline=finding.headline,
            besides=finding.besides,
        )
        self.folder.write(finding.repro, text)
        self.folder.save_report(
            smallest.number, self.clean.baseline, seconds=smallest.seconds, scenario=text
        )

    def _render_junit(
        self, runs: Sequence[RunRow], properties: Mapping[str, str] | None = None
    ) -> str:
        rows = [self._build_suite_row(run) for run in runs]
        if self.retries.is_finding:
            file, sentence = self.clean.plan.file, self.retries.sentence
            rows.append(
                SuiteRow(SETTINGS, file, None, verdict=None, error=sentence, duration_s=0.0)
            )
        return render_junit(rows, name="chaos audit", properties=properties)

    def _build_suite_row(self, run: RunRow) -> SuiteRow:
        name, file = f"{run.group}: {run.name}", self.clean.plan.file
        if run.earlier:
            return build_skipped_row(name, file, f"not tried again: it was right in {run.earlier}")
        row = build_suite_row(
            self.folder.load_finished_run(run.number, self.clean.baseline, seconds=run.seconds)
        )
        verdict = row.verdict
        if verdict is not None and verdict.status != run.status:  # it was wrong only once
            update = {"status": run.status, "headline": run.headline}
            verdict = verdict.model_copy(update=update)
        return dataclasses.replace(
            row,
            scenario=name,
            attempts=run.attempts,
            lost_steps=run.lost_steps,
            verdict=verdict,
        )


def _join_run_places(runs: Sequence[RunRow]) -> list[FaultSite]:
    """Return the places of each run, those that shared one as one."""
    by_number: dict[int, list[FaultSite]] = {}
    for run in runs:
        by_number.setdefault(run.number, []).append(run.place)
    return [join_places(places) for places in by_number.values()]


def _note_accepted(runs: Sequence[RunRow]) -> Iterator[Note]:
    """Yield a note for each accepted broken promise, with its number of runs."""
    for count, defect in _group_defects(defect for run in runs for defect in run.accepted):
        reasons = "".join(f" ({reason})" for reason in defect.accepted_reasons)
        text = f"{ACCEPTED}{defect.severity}: {defect.check}: {defect.sentence}{reasons}"
        example = f": {text}" if count == 1 else f", such as: {text}"
        yield Note(kind="accepted", text=f"{plural(count, 'place')}{example}")


def _note_latent(runs: Sequence[RunRow]) -> Iterator[Note]:
    """Yield a note for each broken promise without consequence, with its number of places."""
    right_runs = [run for run in runs if run.is_right]
    for count, defect in _group_defects(defect for run in right_runs for defect in run.latent):
        places = "where it happened" if count == 1 else f"at all {count} places, such as this one"
        text = f"latent: {defect.check}: {defect.sentence}"
        yield note(f"{text} ({WITHOUT_CONSEQUENCE} {places})")


def _group_defects(defects: Iterable[Defect]) -> Iterator[tuple[int, Defect]]:
    """Yield the first of the defects that are the same at several places, with their number."""
    groups: dict[DefectKey, list[Defect]] = {}
    for defect in defects:
        groups.setdefault(defect.key, []).append(defect)
    for same_defects in groups.values():
        yield len(same_defects), same_defects[0]


def _build_job(clean: CleanResult) -> AuditedJob:
    profile, job = clean.baseline_profile, clean.plan.job
    steps = [
        sum(n for (_, step_rank), n in profile.steps.items() if step_rank == rank)
        for rank in profile.ranks
    ]
    epoch_count, saved_count = len(profile.epochs), len(profile.saved_epochs)
    if not profile.has_reports:
        epoch_count, saved_count = (
            len({epoch for epoch, _ in profile.steps}),
            len(profile.script_saves),
        )
    return AuditedJob(
        script=format_portable_path(job.script) if job.script else job.source,
        args=mask_value(job.args),
        workers=job.workers,
        epochs=epoch_count,
        steps=max(steps, default=0),
        saved=saved_count,
        clean_s=profile.seconds,
        own_retries=_parse_limit(profile.find_setting("max_failures")),
        own_preemptions=_parse_limit(profile.find_setting("max_preemption_failures")),
        epoch_steps=max(profile.steps.values(), default=0),
        launcher=profile.launcher,
        keeps_files=bool(profile.saves),
        sees=clean.profile.evidence,
    )


def _parse_limit(setting: object) -> int | None:
    return setting if isinstance(setting, int) else None
