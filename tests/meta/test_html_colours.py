"""A colour that is not defined draws nothing, and says nothing."""

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "chaos"
SOURCES = [file for file in PACKAGE.rglob("*") if file.suffix in {".py", ".j2", ".css", ".js"}]


def test_every_colour_that_a_page_uses_is_defined_by_day_and_by_night() -> None:
    text = "\n".join(file.read_text(encoding="utf-8") for file in SOURCES)
    defined = re.findall(r"^\s*(--[a-z0-9-]+):", text, re.MULTILINE)
    defined += re.findall(r";\s*(--[a-z0-9-]+):", text)

    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", text))

    assert len(used) > 30
    assert {name for name in used if defined.count(name) < 2} == set()
