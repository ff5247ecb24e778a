"""The picture of a terminal is whole without a network, a script or any motion."""

import re
from pathlib import Path

from tests.browser.recording import paragraphs, recording

ROOT = Path(__file__).parents[2]
PRINTED = "\x1b[31m✗ train.py: fail\x1b[0m\n\nfault  tried\n\nplace\n\n╭─ state ─╮\n"


def test_all_is_there_at_once() -> None:
    svg = recording("chaos audit train.py", "one\ntwo\n")

    assert "animation" not in svg
    assert [">one<" in svg, ">two<" in svg] == [True, True]


def test_paragraphs_are_chosen_by_their_beginnings_and_keep_their_colours() -> None:
    chosen = paragraphs(PRINTED, "✗ ", "╭─")

    assert chosen == "\x1b[31m✗ train.py: fail\x1b[0m\n\n╭─ state ─╮\n\n…"


def test_the_picture_of_the_first_page_fetches_nothing_and_is_of_its_command() -> None:
    svg = (ROOT / "docs/audit.svg").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.sub(r"<[^>]+>", "", svg).replace("&#160;", " ")

    assert not re.search(r"url\(.?http|<script|<image|@import", svg)
    assert "chaos audit train.py -- --epochs 4" in shown
    assert "chaos audit train.py -- --epochs 4\n" in readme
