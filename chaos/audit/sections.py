"""A card in words: its causes and its remarks, which every report of an audit lays out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.audit.card import Card, SaveStep
from chaos.audit.finding import Finding
from chaos.audit.retries import SETTINGS
from chaos.audit.table import group_rows, kind_rows, part_rows
from chaos.model.verdict import RESULT_WORDS
from chaos.report.outcome import Tone
from chaos.report.parts import EVERYWHERE, ReportLine
from chaos.wording import describe_omitted, format_sentence, plural

ON_THE_CARD = "on the card"
INCONCLUSIVE_SHOWN = 3
PLACES_SHOWN = 3


@dataclass(frozen=True)
class CauseSection:
    """One thing that is wrong: a finding, or the settings, which have none."""

    title: str
    sentence: str
    #: What to do, with its label: a command, or a line to write.
    label: str
    remedy: str
    finding: Finding | None = None

    @property
    def brief(self) -> str:
        """The sentence, without the faults that showed it."""
        return self.sentence if self.finding is None else self.finding.brief


def list_causes(card: Card) -> Iterator[CauseSection]:
    """Yield all that is wrong, the settings first."""
    retries = card.retries
    if retries.is_finding:
        yield CauseSection(SETTINGS, format_sentence(retries.sentence), "write", retries.fix)
    for finding in card.findings:
        command = f"chaos run {card.folder}/{finding.repro}"
        yield CauseSection(describe_finding(finding), finding.headline, "repro", command, finding)


def describe_finding(finding: Finding, parts_max: int | None = None) -> str:
    """Return a finding's title: its severity, its extent, its check, and at most so many parts."""
    defect = finding.defect
    names = [*defect.parts[:parts_max]]
    if extra_count := len(defect.parts) - len(names):
        names.append(f"{extra_count} more")
    parts_text = f" ({', '.join(names)})" if names else ""
    return f"{finding.severity} at {finding.extent}: {defect.check}{parts_text}"


def describe_changes(card: Card) -> Iterator[ReportLine]:
    """Yield what has become of the last audit, if this one continues it."""
    changes = card.since
    if changes is None:
        return
    right_text = f", {len(changes.broken)} of them right then" if changes.broken else ""
    rows: tuple[tuple[Tone, str, Sequence[str], str], ...] = (
        ("good", "mended", changes.mended, ""),
        ("bad", "still wrong", changes.still, ""),
        ("bad", "new", changes.new, right_text),
        ("open", "no answer", changes.untold, ", which failed then"),
        ("calm", "not there", changes.gone, ", which failed then"),
    )
    for tone, label, places, ending in rows:
        if places:
            yield ReportLine(
                tone, label, f"{plural(len(places), 'place')}{ending}: {_list_places(places)}"
            )
    if changes.kept:
        place_count = plural(changes.kept, "place")
        same = "code, packages, settings and clean run are the same"
        text = f"{place_count}, right in {changes.folder} and not tried again: {same}"
        yield ReportLine("calm", "kept", text)


def summarize_changes(card: Card) -> str:
    """Return the same in one sentence; empty if there is nothing to tell."""
    changes = card.since
    if changes is None:
        return ""
    places = {"mended": changes.mended, "still wrong": changes.still, "new": changes.new}
    counts = [f"{len(names)} {word}" for word, names in places.items() if names]
    counts += [f"{len(changes.untold)} without an answer"] if changes.untold else []
    return f"Since the last audit: {', '.join(counts)}." if counts else ""


def _list_places(places: Sequence[str]) -> str:
    rest_text = (
        [describe_omitted(len(places) - PLACES_SHOWN, ON_THE_CARD)] if places[PLACES_SHOWN:] else []
    )
    return "; ".join([*places[:PLACES_SHOWN], *rest_text])


def _list_doubts(card: Card) -> Iterator[ReportLine]:
    """Yield the reasons why an answer is open, and the first runs that have none."""
    doubts = [("why", reason) for reason in card.reasons if card.word == "inconclusive"]
    doubts += (
        ("inconclusive", f"{run.group}, {run.name}: {run.headline}")
        for run in card.inconclusive[:INCONCLUSIVE_SHOWN]
    )
    if (extra_count := len(card.inconclusive) - INCONCLUSIVE_SHOWN) > 0:
        doubts.append(("inconclusive", describe_omitted(extra_count, ON_THE_CARD)))
    for label, text in doubts:
        yield ReportLine("open", label, text, media=("terminal", "markdown"))


def list_remarks(card: Card) -> Iterator[ReportLine]:
    """Yield the doubts, the evidence, and its limits.

    A page has the doubts in full, and a terminal has had the notes before the first fault.
    """
    yield from _list_doubts(card)
    if text := _describe_state(card):
        yield ReportLine("calm", "state", text)
    yield ReportLine("calm", "job", card.size)
    yield from _describe_save(card.save_steps)
    landed, planned = card.landed
    shared = f" in {plural(card.run_count, 'run')}" if card.shared else ""
    words = f"{landed} of {planned} faults landed{shared}; {card.repetition}"
    yield ReportLine("calm", "rests on", words)
    yield from (
        ReportLine("calm", "equal", text) for text in [describe_equal_results(card)] if text
    )
    yield from describe_controls(card)
    if card.retries.note is not None:
        yield ReportLine("calm", card.retries.label, card.retries.note)
    yield from (ReportLine("calm", "replaced", str(row)) for row in card.replaced)
    for note in card.notes:
        tone: Tone = "calm" if note.kind == "note" else "open"
        media = EVERYWHERE if note.kind == "accepted" else ("markdown", "page")
        yield ReportLine(tone, note.kind, note.text, media=media)
    if omission := describe_omissions(card):
        yield ReportLine("calm", "not tried", omission)


def describe_equal_results(card: Card) -> str:
    """Return which results of the right runs were the baseline's, and in how many."""
    right_runs = [run for run in card.runs if run.is_right and run.equal]
    counts = {name: sum(name in run.equal for run in right_runs) for name in RESULT_WORDS}
    equal_texts = [
        RESULT_WORDS[name] + (f" ({count} of {len(right_runs)})" if count < len(right_runs) else "")
        for name, count in sorted(counts.items(), key=lambda item: -item[1])
        if count
    ]
    if not equal_texts:
        return ""
    different_names = {name for run in right_runs for name in run.different}
    accepted_results = [RESULT_WORDS[name] for name in RESULT_WORDS if name in different_names]
    uncompared_results = [
        RESULT_WORDS[name]
        for name, count in counts.items()
        if not count and name not in different_names
    ]
    # A right run has a result that differs only where that is accepted.
    tail = f"; different, and accepted: {', '.join(accepted_results)}" if accepted_results else ""
    tail += f"; not compared: {', '.join(uncompared_results)}" if uncompared_results else ""
    return f"{', '.join(equal_texts)}{tail}"


def describe_controls(card: Card) -> Iterator[ReportLine]:
    """Yield what planted losses have shown, if any were asked for."""
    if card.controls is not None:
        tone: Tone = "open" if card.controls.select("not found") else "calm"
        yield ReportLine(tone, "controls", str(card.controls))


def _describe_save(steps: Sequence[SaveStep]) -> Iterator[ReportLine]:
    """Yield the operations of a save, if it has several."""
    if len(steps) > 1:
        tried_count = sum(step.tried > 0 for step in steps)
        words = f"{tried_count} of its {len(steps)} operations tried: {', '.join(map(str, steps))}"
        yield ReportLine("bad" if any(step.wrong for step in steps) else "calm", "a save", words)


def find_untried_kinds(card: Card) -> list[str]:
    """Return the kinds of faults that the job has places for, of which none was tried."""
    return [row.kind for row in kind_rows(card) if row.places and not row.tally.total]


def describe_omissions(card: Card) -> str | None:
    """Return one line on the places that were not tried, and the reason; None if all were."""
    rows = group_rows(card)
    total = sum(row.places for row in rows)
    counts = {
        "not asked for": sum(row.places for row in rows if row.chosen == 0),
        "not sampled": sum(row.places - row.chosen for row in rows if row.chosen),
        "not run": sum(row.chosen - row.tried for row in rows),
    }
    reasons = ", ".join(f"{count} {reason}" for reason, count in counts.items() if count)
    return f"{sum(counts.values())} of {plural(total, 'place')}: {reasons}" if reasons else None


def _describe_state(card: Card) -> str:
    """Return in words the parts of the state that every resume restored, and the others."""
    rows = part_rows(card)
    lost_texts = [
        f"{row.component} {row.standing} ({row.lost} of {row.resumes})" for row in rows if row.lost
    ]
    idle_texts = [
        f"{row.component} {row.standing}, no consequence seen ({row.idle} of {row.resumes})"
        for row in rows
        if row.idle and not row.lost
    ]
    restored_parts = [
        row.component for row in rows if row.restored and not row.lost and not row.idle
    ]
    parts = [
        *lost_texts,
        *idle_texts,
        *([f"restored: {', '.join(restored_parts)}"] if restored_parts else []),
    ]
    return "; ".join(parts)
