"""The parts of a result on a page."""

from chaos.report.html import render_page
from tests.report.parts import PARTS


def test_a_page_has_a_section_for_each_heading_and_escapes_what_is_not_its_own() -> None:
    page = render_page(PARTS, kind="a test", heading="train.py", footer="Made in `tests`.")

    assert '<section aria-labelledby="parts">' in page
    assert "a &lt;tag&gt;" in page
    assert "of a page" in page
    assert "With <code>code</code>." in page
    assert 'class="tag bad"' in page
    assert "for Markdown alone" not in page.lower().replace("markdown", "Markdown")
