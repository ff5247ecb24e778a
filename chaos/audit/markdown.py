"""The card in Markdown: for a pull request, an issue, the summary of a CI step."""

import posixpath

from chaos.audit.answer import confidence, coverage_share
from chaos.audit.card import Card
from chaos.audit.finding import Finding
from chaos.audit.page import KIND_HEAD, facts, kind_cells, omissions, title, tone
from chaos.audit.table import kind_rows
from chaos.report.markdown import SIGNS, code, fitted, plain, table

PLACES_SHOWN = 6


def card_in_markdown(card: Card) -> str:
    """Return an audit: the verdict, its figures, a section per finding, the omissions."""
    shown, script = facts(card), plain(posixpath.basename(card.job.script))
    lines = [
        f"# {SIGNS[tone(card)]} {script}: {plain(card.sentence)}",
        "",
    ]
    lines += [*table([fact.name for fact in shown], [[plain(fact.value) for fact in shown]]), ""]
    lines += [*table(KIND_HEAD, kind_cells(card)), ""]
    lines += [f"- {plain(reason)}" for reason in card.reasons if card.word == "inconclusive"]
    lines += [f"- {note.kind}: {plain(note.text)}" for note in card.notes]
    lines += [f"- replaced: {plain(str(row))}" for row in card.replaced]
    lines.append("")
    for finding in card.findings:
        lines += _section(card, finding)
    left = omissions(card)
    if left:
        lines += ["## Not tried", "", *(f"- {o.group}: {plain(o.why)}" for o in left), ""]
    return fitted("\n".join([*lines, code(card.command), ""]))


def paragraph(card: Card) -> str:
    """Return a paragraph for a pull request, and a line per cause with its command."""
    script = plain(posixpath.basename(card.job.script))
    untried = [row.kind for row in kind_rows(card) if row.places and not row.tally.total]
    sure = confidence(card)
    texts = [
        f"{SIGNS[tone(card)]} **chaos audit of {script}: {plain(card.sentence)}.**",
        f"Coverage: {coverage_share(card):.0%} of the places, of {plain(card.size)}.",
        *([plain(sure[:1].upper() + sure[1:] + ".")] if sure else []),
        *([f"Not tested: {plain(', '.join(untried))}."] if untried else []),
    ]
    causes = [
        f"- {plain(title(finding))}. {plain(finding.smallest.headline)} "
        f"{code(f'chaos run {card.folder}/{finding.repro}')}"
        for finding in card.findings
    ]
    return fitted("\n".join([" ".join(texts), *(["", *causes] if causes else []), ""]))


def _section(card: Card, finding: Finding) -> list[str]:
    places = ", ".join(plain(place) for place in finding.places[:PLACES_SHOWN])
    more = finding.count - PLACES_SHOWN
    return [
        f"## {plain(title(finding))}",
        "",
        plain(finding.smallest.headline),
        "",
        places + (f" and {more} more" if more > 0 else ""),
        "",
        code(f"chaos run {card.folder}/{finding.repro}"),
        "",
    ]
