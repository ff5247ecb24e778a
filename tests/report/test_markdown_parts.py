"""The parts of a result in Markdown."""

from chaos.report.markdown_parts import render_markdown_parts
from tests.report.parts import PARTS


def test_markdown_has_titles_and_opens_no_tag() -> None:
    text = render_markdown_parts(PARTS)

    assert text.startswith("# ❌ train.py: 2 causes\n\nAs it is.\n\n- **note**: a \\<tag\\>\n")
    assert "## state\n\nIt is lost.\n\n- repro: `chaos run x" in text
    assert "## Parts\n\n| part | lost |\n| --- | ---: |\n| model | ❌ 1 |\n" in text
    assert text.endswith("For Markdown alone.\n")
