"""The card in the few lines that a terminal shows first; `chaos.audit.parts` has all of it."""

import posixpath
from collections.abc import Iterator, Sequence

from chaos.audit.answer import coverage_share, describe_confidence
from chaos.audit.card import Card
from chaos.audit.parts import choose_tone
from chaos.audit.sections import (
    CauseSection,
    describe_changes,
    describe_controls,
    describe_equal_results,
    describe_finding,
    describe_omissions,
    find_untried_kinds,
    list_causes,
)
from chaos.audit.table import kind_rows
from chaos.model.verdict import JobLine
from chaos.report.parts import (
    Commands,
    FindingPart,
    Headline,
    LabelledLines,
    ReportLine,
    ReportPart,
    SourceLines,
)
from chaos.wording import plural

NAMED_PARTS_MAX = 1


def list_brief_parts(card: Card) -> Iterator[ReportPart]:
    """Yield the answer, each cause with its lines of code, and what the answer rests on."""
    yield build_answer_line(card)
    if reasons := [*_list_reasons(card)]:
        yield LabelledLines(reasons)
    if changes := [*describe_changes(card)]:
        yield LabelledLines(changes)
    for cause in list_causes(card):
        yield _build_cause(cause)
    yield LabelledLines([*_list_remarks(card)])
    page = ("card", f"{card.folder}/card.html")
    yield Commands(
        [("again", card.command), page, ("more", f"chaos report {card.folder} --format text")]
    )


def build_answer_line(card: Card) -> Headline:
    """Return the answer in one line."""
    return Headline(choose_tone(card), card.sentence, subject=posixpath.basename(card.job.script))


def _list_reasons(card: Card) -> Iterator[ReportLine]:
    """Yield why an answer, or a run beside an answer, is open, where the answer does not say it."""
    if card.word != "inconclusive" and card.inconclusive:
        example = card.inconclusive[0]
        text = f"{plural(len(card.inconclusive), 'place')} could not be judged: {example.headline}"
        yield ReportLine("open", "besides", text)
    for reason in card.reasons if card.word == "inconclusive" else ():
        if reason not in card.sentence:
            yield ReportLine("open", "why", reason)


def _build_cause(cause: CauseSection) -> FindingPart:
    """Return a cause: its gravity and extent, what was seen, the lines, and how to see it again."""
    finding = cause.finding
    if finding is None:
        return FindingPart(cause.title, cause.sentence, [Commands([(cause.label, cause.remedy)])])
    lines = [ReportLine("calm", "after", faults)] if (faults := finding.fault_text) else []
    if finding.elsewhere:
        lines.append(ReportLine("calm", "on Ray", finding.elsewhere))
    parts = [
        LabelledLines(lines),
        SourceLines(_select_first_lines(finding.lines)),
        Commands([(cause.label, cause.remedy)]),
    ]
    return FindingPart(describe_finding(finding, NAMED_PARTS_MAX), finding.consequence, parts)


def _select_first_lines(lines: Sequence[JobLine]) -> list[JobLine]:
    """Return what was made, and the first line that saved and that read, which the remedy names."""
    first_lines = {line.role: line for line in reversed(lines)}
    return [line for line in lines if line.role == "made" or line is first_lines[line.role]]


def _list_remarks(card: Card) -> Iterator[ReportLine]:
    """Yield what was tried and what was not, and what a pass has shown to be equal."""
    if card.word == "pass" and (text := describe_equal_results(card)):
        yield ReportLine("calm", "equal", text)
    if (claim := describe_confidence(card)) is not None:
        yield ReportLine("calm", "shows", claim)
    yield from (
        ReportLine("open", note.kind, note.text) for note in card.notes if note.kind == "accepted"
    )
    yield from describe_controls(card)
    yield ReportLine("calm", "tried", _describe_tried(card))
    if omissions := describe_omissions(card):
        yield ReportLine("open", "not tried", omissions)
    if kinds := find_untried_kinds(card):
        yield ReportLine("open", "not tried", f"no fault of these kinds: {', '.join(kinds)}")
    for note in card.notes:
        if note.is_aside:
            yield ReportLine("calm", "left out", note.text)
    yield ReportLine("calm", "rests on", str(card.repetition))
    if card.retries.note is not None:
        yield ReportLine("calm", card.retries.label, card.retries.note)
    yield from (ReportLine("calm", "replaced", str(row)) for row in card.replaced)


def _describe_tried(card: Card) -> str:
    """Return the number of places that were tried, and of runs by kind of fault."""
    tried_count, place_count = card.places
    share = coverage_share(card)
    counts = [f"{row.kind} {row.tally.total}" for row in kind_rows(card) if row.tally.total]
    kinds = f": {', '.join(counts)}" if counts else ""
    return f"{tried_count} of {plural(place_count, 'place')} ({share:.0%}){kinds}"
