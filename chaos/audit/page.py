"""The card as a page of one file, which loads nothing, and as a paragraph for a pull request."""

import posixpath

from chaos.audit.answer import coverage_share, describe_confidence
from chaos.audit.card import Card
from chaos.audit.parts import choose_tone, list_parts
from chaos.audit.sections import find_untried_kinds, list_causes, summarize_changes
from chaos.report.ci import SHOWN, AnnotatedLine, find_code_line, format_command
from chaos.report.html import render_page
from chaos.report.markdown_parts import escape_markdown, fit_text, format_code
from chaos.report.parts import SIGNS
from chaos.wording import format_sentence


def render_card(card: Card) -> str:
    """Return the page of an audit: the verdict first, then its evidence."""
    versions = "".join(f" · {name} {version}" for name, version in card.versions.items())
    return render_page(
        [*list_parts(card)],
        kind="resilience card of a training job",
        heading=posixpath.basename(card.job.script),
        title=f"{card.sentence}: {card.job.script}",
        footer=f"Made by chaos {card.version} from `{card.folder}`{versions}.",
    )


def render_paragraph(card: Card) -> str:
    """Return a paragraph for a pull request, and a line per cause with its command."""
    script = escape_markdown(posixpath.basename(card.job.script))
    untried_kinds, claim = find_untried_kinds(card), describe_confidence(card)
    texts = [
        (
            f"{SIGNS[choose_tone(card)].emoji} **chaos audit of {script}: "
            f"{escape_markdown(card.sentence)}.**"
        ),
        f"Coverage: {coverage_share(card):.0%} of the places, of {escape_markdown(card.size)}.",
        *([escape_markdown(format_sentence(claim))] if claim else []),
        *([escape_markdown(words)] if (words := summarize_changes(card)) else []),
        *([escape_markdown(format_sentence(str(card.controls)))] if card.controls else []),
        *([f"Not tested: {escape_markdown(', '.join(untried_kinds))}."] if untried_kinds else []),
    ]
    cause_lines = [
        f"- {escape_markdown(cause.title)}. {escape_markdown(cause.sentence)} "
        f"{format_code(cause.remedy)}"
        for cause in list_causes(card)
    ]
    return fit_text("\n".join([" ".join(texts), *(["", *cause_lines] if cause_lines else []), ""]))


def build_annotations(card: Card) -> list[str]:
    """Return GitHub's workflow commands: an error for each thing that is wrong, at its line."""
    script = AnnotatedLine(card.job.script, 1)
    if card.controls is not None:  # of a pass, which has no error
        return [format_command("notice", script, "planted losses", str(card.controls))]
    return [
        format_command(
            "error",
            (find_code_line(cause.finding.lines) if cause.finding is not None else None) or script,
            cause.title,
            f"{cause.sentence}\n{cause.remedy}",
        )
        for cause in list(list_causes(card))[:SHOWN]
    ]
