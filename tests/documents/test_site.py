"""The site can be built, without a network, and has every page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from chaos.installation import REPOSITORY, TAG
from tests.documents.blocks import ROOT
from tests.tools.reference import FOLDER, PAGES

README_LINES_MAX = 100
FIRST_SCREEN_LINES_MAX = 25
FIRST_WORDS_MAX, WORDS_MAX = 100, 130  # a phone shows some 130
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
# Those that are made from the code have its words.
WRITTEN = [
    page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "reference"
]
# The longest that a page for users may be, without its code.
USER_WORDS_MAX = 1500
USER_PAGES = (
    "audit", "ci", "get-started", "guard", "install", "launchers", "limits", "pytest", "reports",
    "saves", "scenarios", "search", "tutorial", "verdicts",
)  # fmt: skip
LINK = re.compile(r"\]\(([^)#:]+\.md)")
yaml = YAML(typ="safe")
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


@pytest.mark.parametrize("name", [name for name in PAGES if name != "reads.md"])
def test_the_reference_is_that_of_the_code(name: str) -> None:
    stale = "run: python -m tests.tools.reference"
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), stale


def test_the_site_names_the_release_and_the_repository() -> None:
    site = yaml.load(ROOT / "mkdocs.yml")

    assert site["extra"]["release"] == TAG
    assert site["repo_url"] == REPOSITORY


def test_the_first_page_of_the_site_is_the_first_screen_of_the_readme() -> None:
    readme, home = (
        (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/index.md")
    )
    promise, _, _ = readme.partition("\n## ")

    assert home.startswith(promise.replace("](docs/", "]("))
    assert len(promise.splitlines()) <= FIRST_SCREEN_LINES_MAX


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_no_paragraph_fills_a_screen_and_the_first_one_is_short(page: Path) -> None:
    prose = FENCED.sub("", page.read_text(encoding="utf-8"))
    parts = [part.strip() for part in re.split(r"\n\n|\n(?=\s*[-*|\d#])", prose)]
    parts = [part for part in parts if part and part[0] not in "#|<!"]

    assert len(parts[0].split()) <= FIRST_WORDS_MAX
    assert [part[:60] for part in parts if len(part.split()) > WORDS_MAX] == []


@pytest.mark.parametrize("name", USER_PAGES)
def test_a_page_for_users_is_no_longer_than_one_sitting(name: str) -> None:
    page = FENCED.sub("", (ROOT / f"docs/{name}.md").read_text(encoding="utf-8"))

    assert len(page.replace("|", " ").split()) <= USER_WORDS_MAX


def test_every_page_is_linked_from_another_one() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    linked = {
        (page.parent / target).resolve()
        for page in pages
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if (page.parent / target).resolve() != page
    }

    assert [page.name for page in pages[1:] if page not in linked and page.stem != "index"] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= README_LINES_MAX
