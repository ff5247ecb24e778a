"""A card in words: its causes and its remarks, which every report of an audit lays out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.audit.card import Card, SaveStep
from chaos.audit.finding import Finding
from chaos.audit.retries import SETTINGS
from chaos.audit.table import group_rows, kind_rows, part_rows
from chaos.check.grade import ACCEPTED
from chaos.check.headline import as_sentence
from chaos.model.verdict import RESULT_WORDS
from chaos.report.outcome import Tone
from chaos.report.sections import Line
from chaos.words import and_more, plural

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


def causes(card: Card) -> Iterator[CauseSection]:
    """Yield all that is wrong, the settings first."""
    retries = card.retries
    if retries.is_finding:
        yield CauseSection(SETTINGS, as_sentence(retries.sentence), "write", retries.fix)
    for finding in card.findings:
        command = f"chaos run {card.folder}/{finding.repro}"
        yield CauseSection(title(finding), finding.headline, "repro", command, finding)


def title(finding: Finding) -> str:
    """Return a finding's title: its check, parts, severity, and extent."""
    defect = finding.defect
    of = f" ({', '.join(defect.parts)})" if defect.parts else ""
    return f"{defect.check}{of}, {finding.severity}: {finding.extent}"


def since(card: Card) -> Iterator[Line]:
    """Yield what has become of the last audit, if this one continues it."""
    found = card.since
    if found is None:
        return
    then = f", {len(found.broken)} of them right then" if found.broken else ""
    rows: tuple[tuple[Tone, str, Sequence[str], str], ...] = (
        ("good", "mended", found.mended, ""),
        ("bad", "still wrong", found.still, ""),
        ("bad", "new", found.new, then),
        ("open", "no answer", found.untold, ", which failed then"),
        ("calm", "not there", found.gone, ", which failed then"),
    )
    for tone, label, places, tail in rows:
        if places:
            yield Line(tone, label, f"{plural(len(places), 'place')}{tail}: {_some(places)}")
    if found.kept:
        right = plural(found.kept, "place")
        same = "code, packages, settings and clean run are the same"
        text = f"{right}, right in {found.folder} and not tried again: {same}"
        yield Line("calm", "kept", text)


def since_in_words(card: Card) -> str:
    """Return the same in one sentence; empty if there is nothing to tell."""
    found = card.since
    if found is None:
        return ""
    places = {"mended": found.mended, "still wrong": found.still, "new": found.new}
    told = [f"{len(names)} {word}" for word, names in places.items() if names]
    told += [f"{len(found.untold)} without an answer"] if found.untold else []
    return f"Since the last audit: {', '.join(told)}." if told else ""


def _some(places: Sequence[str]) -> str:
    more = [and_more(len(places) - PLACES_SHOWN, ON_THE_CARD)] if places[PLACES_SHOWN:] else []
    return "; ".join([*places[:PLACES_SHOWN], *more])


def remarks(card: Card) -> Iterator[Line]:
    """Yield all else that a short report has: the doubts, the evidence, and its limits."""
    if card.word == "inconclusive":
        yield from (Line("open", "why", reason) for reason in card.reasons)
    for run in card.inconclusive[:INCONCLUSIVE_SHOWN]:
        yield Line("open", "inconclusive", f"{run.group}, {run.name}: {run.headline}")
    if (more := len(card.inconclusive) - INCONCLUSIVE_SHOWN) > 0:
        yield Line("open", "inconclusive", and_more(more, ON_THE_CARD))
    if text := _state(card):
        yield Line("calm", "state", text)
    yield Line("calm", "job", card.size)
    yield from _save(card.save_steps)
    landed, planned = card.landed
    shared = f" in {plural(card.run_count, 'run')}" if card.shared else ""
    words = f"{landed} of {planned} faults landed{shared}; {card.repetition}"
    yield Line("calm", "rests on", words)
    yield from (Line("calm", "equal", text) for text in [equal_results(card)] if text)
    if card.retries.note is not None:
        yield Line("calm", card.retries.label, card.retries.note)
    yield from (Line("calm", "replaced", str(row)) for row in card.replaced)
    for note in card.notes:
        is_plain = note.kind == "note" and ACCEPTED not in note.text
        yield Line("calm" if is_plain else "open", note.kind, note.text)
    if left := omitted(card):
        yield Line("calm", "not tried", left)


def equal_results(card: Card) -> str:
    """Return which results of the right runs were the baseline's, and in how many."""
    right = [run for run in card.runs if run.is_right and run.equal]
    counts = {name: sum(name in run.equal for run in right) for name in RESULT_WORDS}
    equal = [
        RESULT_WORDS[name] + (f" ({count} of {len(right)})" if count < len(right) else "")
        for name, count in sorted(counts.items(), key=lambda item: -item[1])
        if count
    ]
    if not equal:
        return ""
    uncompared = [RESULT_WORDS[name] for name, count in counts.items() if not count]
    tail = f"; not compared: {', '.join(uncompared)}" if uncompared else ""
    return f"{', '.join(equal)}{tail}"


def _save(steps: Sequence[SaveStep]) -> Iterator[Line]:
    """Yield the operations of a save, if it has several."""
    if len(steps) > 1:
        tried = sum(step.tried > 0 for step in steps)
        words = f"{tried} of its {len(steps)} operations tried: {', '.join(map(str, steps))}"
        yield Line("bad" if any(step.wrong for step in steps) else "calm", "a save", words)


def untried(card: Card) -> list[str]:
    """Return the kinds of faults that the job has places for, of which none was tried."""
    return [row.kind for row in kind_rows(card) if row.places and not row.tally.total]


def omitted(card: Card) -> str | None:
    """Return one line on the places that were not tried, and the reason; None if all were."""
    rows = group_rows(card)
    total = sum(row.places for row in rows)
    counts = {
        "not asked for": sum(row.places for row in rows if row.chosen == 0),
        "not sampled": sum(row.places - row.chosen for row in rows if row.chosen),
        "not run": sum(row.chosen - row.tried for row in rows),
    }
    reasons = ", ".join(f"{count} {why}" for why, count in counts.items() if count)
    return f"{sum(counts.values())} of {plural(total, 'place')}: {reasons}" if reasons else None


def _state(card: Card) -> str:
    """Return in words the parts of the state that every resume restored, and the others."""
    rows = part_rows(card)
    lost = [
        f"{row.component} {row.standing} ({row.lost} of {row.resumes})" for row in rows if row.lost
    ]
    idle = [
        f"{row.component} {row.standing}, no consequence seen ({row.idle} of {row.resumes})"
        for row in rows
        if row.idle and not row.lost
    ]
    back = [row.component for row in rows if row.restored and not row.lost and not row.idle]
    parts = [*lost, *idle, *([f"restored: {', '.join(back)}"] if back else [])]
    return "; ".join(parts)
