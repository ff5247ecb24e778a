"""The site can be built, without a network, and has every page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents.blocks import ROOT
from tests.tools.reference import FOLDER, PAGES

README_LINES_MAX = 150
IN_THE_SITE = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.mark.timeout(180)
def test_the_site_builds_and_no_link_in_it_is_broken(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "index.html").is_file()
    fetched = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="https?://', _pages(tmp_path))
    assert not fetched


def _pages(folder: Path) -> str:
    return "".join(page.read_text(encoding="utf-8") for page in folder.glob("*.html"))


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.name)
def test_every_page_has_its_place_in_the_navigation(page: Path) -> None:
    assert str(page.relative_to(ROOT / "docs")) in IN_THE_SITE


@pytest.mark.timeout(300)  # one page is made by judging all recorded runs
@pytest.mark.parametrize("name", PAGES)
def test_the_reference_is_that_of_the_code(name: str) -> None:
    stale = "run: python -m tests.tools.reference"
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), stale


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= README_LINES_MAX
