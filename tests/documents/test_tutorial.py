"""Who follows the tutorial comes from red to green, and sees what the page shows."""

from pathlib import Path

import pytest

from tests.documents.blocks import ROOT, blocks
from tests.documents.tutorial import CUT, PAGE, excerpt, follow, told

HEADS = ("✗ ", "✓ ", "╭─", "fault ", "worker killed", "killed in")


def test_the_script_of_the_page_is_the_file_beside_it() -> None:
    (shown,) = (b.text for b in blocks("python") if b.document == PAGE)

    assert shown == (ROOT / "docs/tutorial/train.py").read_text(encoding="utf-8")


def test_an_excerpt_has_the_answer_and_the_findings() -> None:
    printed = "clean run 1 of 2\n✗ fail\n\nx\n\n╭─ state ─╮\n\nwhy\n\ntried  9\n\nagain\n"

    assert excerpt(printed) == (f"{CUT}\n✗ fail\n{CUT}\n\n╭─ state ─╮\n{CUT}\n\ntried  9\n{CUT}\n")


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_every_command_of_the_tutorial_prints_what_the_page_shows(tmp_path: Path) -> None:
    folder = tmp_path / "job"  # findings name files with their folder
    folder.mkdir()
    steps = [*follow(folder)]

    assert len(steps) >= 5
    for step in steps:
        # Which places are tried first, and so which run a finding is shown by, is the machine's.
        heads = [told(line) for line in step.shown.splitlines() if line.startswith(HEADS)]
        printed = told(step.printed)
        assert heads or "scenario" in step.shown
        assert not [head for head in heads if head not in printed], step.printed
