"""From the rows of an audit to its card and its files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos import __version__
from chaos.audit.card import Card, Covered, Ended, Job
from chaos.audit.clean import Clean
from chaos.audit.finding import Finding, findings
from chaos.audit.folder import AuditFolder
from chaos.audit.note import Note
from chaos.audit.order import missing_parts, part_of
from chaos.audit.page import render_card
from chaos.audit.places import coverage
from chaos.audit.queue import Queue
from chaos.audit.replaced import replaced
from chaos.audit.repro import repro_text
from chaos.audit.struck import StruckRun, gist
from chaos.audit.table import by_column, columns
from chaos.check.result import plural
from chaos.model.masked import masked
from chaos.report.junit import render as render_junit
from chaos.report.outcome import versions


@dataclass(frozen=True)
class Conclusion:
    """Writes down what an audit came to; `command` is the command line that repeats it."""

    clean: Clean
    queue: Queue
    folder: AuditFolder
    seed: int
    command: str

    def card(
        self, runs: Sequence[StruckRun], *, ended: Ended, seconds: float, limit: str | None = None
    ) -> Card:
        """Give the card of these runs, all its files written."""
        clean, found = self.clean, findings(runs)
        for finding in found:
            self._save_finding(finding)
        extent, strikes = self.queue.extent, [run.strike for run in runs]
        right = [run.strike for run in runs if run.is_right and run.resumed]
        aims = {part_of(strike, extent) for strike in self.queue.strikes} - {None}
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
            notes=(*clean.notes, *_accepted(runs)),
            covered=self._covered(runs),
            runs=tuple(runs),
            findings=found,
            question=self.queue.question,
            limit=limit,
            missing_parts=missing_parts(right, extent, of=aims),
            hashes_apart=clean.hashes_apart,
            accept=clean.plan.expect.accept,
            has_tolerance=clean.plan.expect.loss_tolerance is not None,
            replaced=replaced(extent, strikes),
            columns=columns(extent.epochs_seen),
        )
        self.write(card)
        self.folder.write("junit.xml", self._junit(runs))
        return card

    def write(self, card: Card) -> None:
        """Write the card for people and for machines."""
        self.folder.write("audit.json", card.to_json())
        self.folder.write("card.html", render_card(card))

    def _save_finding(self, finding: Finding) -> None:
        """Write the reproduction, and complete the folder of the run that it comes from."""
        smallest = finding.smallest
        plan = self.folder.run(smallest.number).load_plan()
        text = repro_text(
            plan,
            check=finding.defect.check,
            folder=self.folder.path / "repro",
            headline=smallest.headline,
        )
        self.folder.write(finding.repro, text)
        self.folder.save_report(
            smallest.number, self.clean.baseline, seconds=smallest.seconds, scenario=text
        )

    def _covered(self, runs: Sequence[StruckRun]) -> tuple[Covered, ...]:
        return tuple(
            Covered(
                group=row.group,
                struck=sum(run.group == row.group for run in runs),
                chosen=row.chosen,
                places=row.places,
                why_none=row.why_none,
                resumes=row.resumes,
                by_column=by_column(row.by_epoch, self.queue.extent.epochs_seen),
            )
            for row in coverage(self.queue.extent, self.queue.strikes, seed=self.seed)
        )

    def _junit(self, runs: Sequence[StruckRun]) -> str:
        baseline = self.clean.baseline
        rows = [self.folder.suite_row(r.number, baseline, seconds=r.seconds) for r in runs]
        return render_junit(rows, name="chaos audit")


def _accepted(runs: Sequence[StruckRun]) -> Iterator[Note]:
    """Give a note for each broken promise that is accepted, with how often it was."""
    found: dict[str, list[str]] = {}
    for text in (text for run in runs for text in run.accepted):
        found.setdefault(gist(text), []).append(text)
    for texts in found.values():
        first = f": {texts[0]}" if len(texts) == 1 else f", such as: {texts[0]}"
        yield Note(kind="note", text=f"{plural(len(texts), 'place')}{first}")


def _job(clean: Clean) -> Job:
    seen = clean.shown
    steps = [sum(n for (_, of), n in seen.steps.items() if of == rank) for rank in seen.ranks]
    return Job(
        script=clean.plan.job.source,
        args=masked(clean.plan.job.args),
        workers=clean.plan.job.workers,
        epochs=len(seen.epochs),
        steps=max(steps, default=0),
        saved=len(seen.saved),
        clean_s=seen.seconds,
        own_retries=_limit(seen.own("max_failures")),
        own_preemptions=_limit(seen.own("max_preemption_failures")),
        epoch_steps=max(seen.steps.values(), default=0),
        keeps_files=bool(seen.saves),
        sees=clean.extent.sees,
    )


def _limit(own: object) -> int | None:
    return own if isinstance(own, int) else None
