"""The card in Markdown: for a pull request, an issue, the summary of a CI step."""

import posixpath

from chaos.audit.card import Card
from chaos.audit.finding import Finding
from chaos.audit.page import facts, omissions, tone
from chaos.check.result import plural
from chaos.report.markdown import SIGNS, fitted, plain, table

PLACES_SHOWN = 6


def card_in_markdown(card: Card) -> str:
    """Give an audit: the verdict, its figures, a section per finding, what was not struck."""
    shown, script = facts(card), plain(posixpath.basename(card.job.script))
    lines = [
        f"# {SIGNS[tone(card)]} {script} {plain(card.sentence)}",
        "",
    ]
    lines += [*table([fact.name for fact in shown], [[plain(fact.value) for fact in shown]]), ""]
    for finding in card.findings:
        lines += _section(card, finding)
    left = omissions(card)
    if left:
        lines += ["## Not struck", "", *(f"- {o.group}: {plain(o.why)}" for o in left), ""]
    return fitted("\n".join([*lines, f"`{card.command}`", ""]))


def _section(card: Card, finding: Finding) -> list[str]:
    places = ", ".join(plain(place) for place in finding.places[:PLACES_SHOWN])
    more = finding.count - PLACES_SHOWN
    return [
        f"## {plain(finding.defect.check)} at {plural(finding.count, 'place')}",
        "",
        plain(finding.smallest.headline),
        "",
        places + (f" and {more} more" if more > 0 else ""),
        "",
        f"`chaos run {card.folder}/{finding.repro}`",
        "",
    ]
