"""The site as a reader has it: opened as a file, on a phone, by day and by night."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.chromium import Page
from tests.browser.scripts import OVERFLOWING

ROOT = Path(__file__).parents[2]
PHONE = (390, 844)
# Types a word into the search box; the titles of the pages that are found, once there are some.
SEARCH = """new Promise((done, fail) => {
    const box = document.querySelector('.md-search__input'), began = performance.now();
    if (!box.checkVisibility()) return fail('the search box is not to be seen');
    box.focus();
    box.value = '%s';
    box.dispatchEvent(new Event('input', {bubbles: true}));
    box.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}));
    const look = () => {
        const found = [...document.querySelectorAll('.md-search-result__item h1')];
        if (found.length) done(found.map(title => title.textContent.trim()));
        else if (performance.now() - began > 20000) fail('nothing found');
        else setTimeout(look, 50);
    };
    look();
})"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site, as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return folder


@pytest.mark.timeout(120)
def test_a_page_that_is_opened_as_a_file_can_be_searched(page: Page, site: Path) -> None:
    page.show(site / "index.html")

    assert "Glossary" in page.js(SEARCH % "glossary")
    assert page.complaints == []


@pytest.mark.timeout(120)
def test_a_phone_shows_the_first_page_without_scrolling_sideways(page: Page, site: Path) -> None:
    assert _too_wide(page, [site / "index.html"]) == {}


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_phone_shows_every_page_without_scrolling_sideways(page: Page, site: Path) -> None:
    assert _too_wide(page, sorted(site.rglob("*.html"))) == {}


def _too_wide(page: Page, files: list[Path]) -> dict[str, list[str]]:
    """Return what reaches beyond the edge of a phone, by page."""
    page.resize(*PHONE)
    found = dict[str, list[str]]()
    for file in files:
        page.show(file)
        if beyond := page.js(OVERFLOWING):
            found[file.name] = beyond
    return found
