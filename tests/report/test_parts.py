"""Each part of a result, as every renderer shows it."""

import io

from rich.console import Console

from chaos.report.html import render_page
from chaos.report.markdown_parts import render_markdown_parts
from chaos.report.parts import (
    Cell,
    Commands,
    FindingPart,
    Headline,
    LabelledLines,
    Paragraph,
    ReportLine,
    ReportPart,
    ResultTable,
    Section,
)
from chaos.report.terminal_parts import print_parts, render_plain_parts

PARTS: tuple[ReportPart, ...] = (
    Headline("bad", "2 causes", subject="train.py", reason="as it is", page_notes=["with `code`"]),
    LabelledLines(
        [
            ReportLine("open", "note", "a <tag>"),
            ReportLine("open", "note", "of a page", media=["page"]),
        ]
    ),
    FindingPart("state", "It is lost.", [Commands([("repro", "chaos run x" + " y" * 60)])]),
    Section(
        [ResultTable(("part", "lost"), [("model", Cell("1", "bad", has_sign=True))], [1])],
        heading="Parts",
    ),
    Paragraph("for Markdown alone", media=["markdown"]),
)


def test_plain_text_has_every_part_once_and_repeats_no_mark_in_colour_alone() -> None:
    assert render_plain_parts(PARTS) == (
        "✗ train.py: 2 causes: as it is\n\n"
        "note       a <tag>\n\n"
        f"state\nIt is lost.\nrepro      chaos run x{' y' * 60}\n\n"
        "part   lost\nmodel   ✗ 1"
    )


def test_a_terminal_frames_a_finding_and_breaks_no_command() -> None:
    written = io.StringIO()
    print_parts(PARTS, Console(file=written, width=40, force_terminal=True, color_system=None))
    lines = written.getvalue().splitlines()

    assert any(line.startswith("╭─ state ─") for line in lines)
    assert f"repro      chaos run x{' y' * 60}" in lines
    assert all(len(line) <= 40 for line in lines if not line.startswith("repro"))


def test_markdown_has_titles_and_opens_no_tag() -> None:
    text = render_markdown_parts(PARTS)

    assert text.startswith("# ❌ train.py: 2 causes\n\nAs it is.\n\n- **note**: a \\<tag\\>\n")
    assert "## state\n\nIt is lost.\n\n- repro: `chaos run x" in text
    assert "## Parts\n\n| part | lost |\n| --- | ---: |\n| model | ❌ 1 |\n" in text
    assert text.endswith("For Markdown alone.\n")


def test_a_page_has_a_section_for_each_heading_and_escapes_what_is_not_its_own() -> None:
    page = render_page(PARTS, kind="a test", heading="train.py", footer="Made in `tests`.")

    assert '<section aria-labelledby="parts">' in page
    assert "a &lt;tag&gt;" in page
    assert "of a page" in page
    assert "With <code>code</code>." in page
    assert 'class="tag bad"' in page
    assert "for Markdown alone" not in page.lower().replace("markdown", "Markdown")
