"""The card of an audit and its files, made from the rows of its runs."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from chaos import __version__
from chaos.audit.baseline_runs import Clean
from chaos.audit.card import AuditedJob, Card, Ended, Replaced, Since
from chaos.audit.chains import joined
from chaos.audit.finding import Finding, findings
from chaos.audit.folder import AuditFolder
from chaos.audit.job_profile import JobProfile
from chaos.audit.notes import Note, note
from chaos.audit.page import badge_svg, paragraph, render_card, summary_svg
from chaos.audit.place_groups import FaultPlace
from chaos.audit.places import coverage, save_steps
from chaos.audit.plans import budget
from chaos.audit.queue import Queue, missing_parts, part_of
from chaos.audit.repro import repro_text
from chaos.audit.retries import SETTINGS, Retries
from chaos.audit.run_row import RunRow, gist
from chaos.audit.table import columns
from chaos.check.results import WITHOUT_CONSEQUENCE
from chaos.model.masked import masked
from chaos.report.ci import render as render_junit
from chaos.report.outcome import SuiteRow, row_of, skipped, versions
from chaos.run.shown import for_others
from chaos.words import plural

_OURS = {"name": "one of each run's own", "storage_path": "the folder of each run"}
_BUDGETS = ("max_failures", "max_preemption_failures")


def replaced(
    profile: JobProfile, places: Sequence[FaultPlace], *, by_command: bool = False
) -> Iterator[Replaced]:
    """Yield the settings that were replaced in clean runs, and retries that were raised.

    `by_command`: these are not of the script, whose command is started once more.
    """
    for name, before in profile.replaced.items():
        if before is None or _is_rays(name, str(before)) or name in _BUDGETS:
            continue
        now = _OURS.get(name, profile.settings.get(name, "as an audit needs it"))
        yield Replaced(name=name, before=str(before), now=str(now))
    if not by_command and not profile.facts.lacks_part("budget"):
        yield from _retries(profile, places)


def _is_rays(name: str, before: str) -> bool:
    """Return whether a setting's value is of Ray 2.60, since the script names none."""
    if name == "name":
        return before.startswith("ray_train_run-")
    return name == "storage_path" and before.endswith("/ray_results")


def _retries(profile: JobProfile, places: Sequence[FaultPlace]) -> Iterator[Replaced]:
    """Yield the raised retries, only if a fault took more than the script allows."""
    given = [budget(place, profile) for place in places]
    for name in _BUDGETS:
        own = profile.own(name)
        more = [count for limits in given if (count := getattr(limits, name)) != own]
        if own is not None and more:
            span = f"{min(more)}" if min(more) == max(more) else f"{min(more)} to {max(more)}"
            yield Replaced(name=name, before=str(own), now=f"{span}, as many as the faults take")


@dataclass(frozen=True)
class CardWriter:
    """The writer of an audit's results."""

    clean: Clean
    queue: Queue
    folder: AuditFolder
    seed: int
    #: the command line that repeats it
    command: str
    retries: Retries
    #: a digest of all that the results follow from, by which a later audit knows what holds
    basis: str = ""
    since: Since | None = None

    def card(
        self, runs: Sequence[RunRow], *, ended: Ended, seconds: float, limit: str | None = None
    ) -> Card:
        """Return the card of these runs, after all its files were written."""
        clean, found = self.clean, findings(runs)
        for finding in found:
            self._save_finding(finding)
        profile = self.queue.profile
        right = [run.place for run in runs if run.is_right and run.resumed]
        aims = {part_of(place, profile) for place in self.queue.places} - {None}
        card = Card(
            version=__version__,
            backend=clean.plan.backend,
            seed=self.seed,
            command=self.command,
            folder=self.folder.shown,
            ended=ended,
            seconds=seconds,
            versions=versions(self.folder.env),
            job=_job(clean),
            repetition=clean.repetition,
            notes=(*clean.notes, *_accepted(runs), *_latent(runs)),
            covered=coverage(profile, self.queue.places, runs, seed=self.seed),
            save_steps=save_steps(profile, runs, seed=self.seed),
            runs=tuple(runs),
            findings=found,
            question=self.queue.question,
            limit=limit,
            missing_parts=missing_parts(right, profile, of=aims),
            hashes_apart=clean.hashes_apart,
            recoveries=clean.recoveries,
            accept=clean.plan.expect.accept,
            sampling=clean.plan.expect.sampling,
            has_tolerance=clean.plan.expect.loss_tolerance is not None,
            replaced=tuple(
                replaced(profile, _as_run(runs), by_command=clean.plan.job.restarts_by_command)
            ),
            columns=columns(profile.epochs_seen),
            run_count=self.queue.runs + len({run.number for run in runs if run.earlier}),
            retries=self.retries,
            basis=self.basis,
            since=self.since,
        )
        self.write(card)
        self.folder.write("junit.xml", self._junit(runs))
        return card

    def write(self, card: Card) -> None:
        """Write the card as pages and as JSON."""
        self.folder.write("audit.json", card.to_json())
        self.folder.write("card.html", render_card(card))
        self.folder.write("summary.md", paragraph(card))
        self.folder.write("summary.svg", summary_svg(card))
        self.folder.write("badge.svg", badge_svg(card))

    def _save_finding(self, finding: Finding) -> None:
        """Write the reproduction, and complete the folder of the run that it comes from."""
        smallest = finding.smallest
        plan = self.folder.run(smallest.number).load_plan()
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

    def _junit(self, runs: Sequence[RunRow]) -> str:
        rows = [self._suite_row(run) for run in runs]
        if self.retries.is_finding:
            file, told = self.clean.plan.file, self.retries.sentence
            rows.append(SuiteRow(SETTINGS, file, None, verdict=None, error=told, duration_s=0.0))
        return render_junit(rows, name="chaos audit")

    def _suite_row(self, run: RunRow) -> SuiteRow:
        name, file = f"{run.group}: {run.name}", self.clean.plan.file
        if run.earlier:
            return skipped(name, file, f"not tried again: it was right in {run.earlier}")
        row = row_of(self.folder.finished(run.number, self.clean.baseline, seconds=run.seconds))
        verdict = row.verdict
        if verdict is not None and verdict.status != run.status:  # it was wrong only once
            told = {"status": run.status, "headline": run.headline}
            verdict = verdict.model_copy(update=told)
        return dataclasses.replace(
            row,
            scenario=name,
            attempts=run.attempts,
            lost_steps=run.lost_steps,
            verdict=verdict,
        )


def _as_run(runs: Sequence[RunRow]) -> list[FaultPlace]:
    """Return the places of each run, those that shared one as one."""
    by_number: dict[int, list[FaultPlace]] = {}
    for run in runs:
        by_number.setdefault(run.number, []).append(run.place)
    return [joined(places) for places in by_number.values()]


def _accepted(runs: Sequence[RunRow]) -> Iterator[Note]:
    """Yield a note for each accepted broken promise, with its number of runs."""
    for count, text in _by_gist(text for run in runs for text in run.accepted):
        first = f": {text}" if count == 1 else f", such as: {text}"
        yield note(f"{plural(count, 'place')}{first}")


def _latent(runs: Sequence[RunRow]) -> Iterator[Note]:
    """Yield a note for each broken promise without consequence, with its number of places."""
    for count, text in _by_gist(text for run in runs if run.is_right for text in run.latent):
        places = "where it happened" if count == 1 else f"at all {count} places, such as this one"
        yield note(f"latent: {text} ({WITHOUT_CONSEQUENCE} {places})")


def _by_gist(texts: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the texts that say the same of several places once: their number, and the first."""
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(gist(text), []).append(text)
    for alike in groups.values():
        yield len(alike), alike[0]


def _job(clean: Clean) -> AuditedJob:
    seen, job = clean.shown, clean.plan.job
    steps = [sum(n for (_, of), n in seen.steps.items() if of == rank) for rank in seen.ranks]
    epochs, saved = len(seen.epochs), len(seen.saved)
    if seen.facts.lacks_part("reports"):
        epochs, saved = len({epoch for epoch, _ in seen.steps}), len(seen.own_saves)
    return AuditedJob(
        script=for_others(job.script) if job.script else job.source,
        args=masked(job.args),
        workers=job.workers,
        epochs=epochs,
        steps=max(steps, default=0),
        saved=saved,
        clean_s=seen.seconds,
        own_retries=_limit(seen.own("max_failures")),
        own_preemptions=_limit(seen.own("max_preemption_failures")),
        epoch_steps=max(seen.steps.values(), default=0),
        launcher=seen.launcher,
        keeps_files=bool(seen.saves),
        sees=clean.profile.sees,
    )


def _limit(own: object) -> int | None:
    return own if isinstance(own, int) else None
