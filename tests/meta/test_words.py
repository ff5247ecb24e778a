"""The pages use the words of the glossary."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
# A word of ours, and the field's that stands for it.
INSTEAD = {
    r"str(?:ike|ikes|iking|uck)": "inject, fault, kill",
    r"victims?": "target",
    r"oracles?": "check",
    r"leeways?": "tolerance",
    r"sightings?": "state snapshots",
    r"survives? \d+ of \d+": "resumes right, coverage",
    r"nobody|whoever|somebody else's fault": "name who or what",
    r"(?:is|are|be|was|were) told": "is reported, knows",
    r"held against": "compared with",
    r"came? out the same": "reaches the same result",
    r"workloads?": "job",
    r"nemesis": "controller",
}
# Code that these words are names in, and what programs print.
CODE = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_uses_the_words_of_the_glossary(page: Path) -> None:
    prose = CODE.sub(lambda found: "\n" * found[0].count("\n"), page.read_text(encoding="utf-8"))
    found = [
        f"{page.name}:{prose[: hit.start()].count(chr(10)) + 1}: '{hit[0]}': say {better}"
        for word, better in INSTEAD.items()
        for hit in re.finditer(rf"\b(?:{word})\b", prose, re.IGNORECASE)
    ]

    assert not found, "\n".join(found)
