"""The answer that a page shows of `chaos preflight`, made anew and written there.

`python -m tests.tools.worked_example` writes it; a nightly test fails where it is stale.
"""

import re
import sys
import tempfile
from itertools import groupby
from pathlib import Path

from tests.called import chaos
from tests.documents.blocks import ROOT, block_of

COMMAND = "chaos preflight big.preflight.yaml"
PAGE = ROOT / "docs/preflight.md"
# Sections of the answer, by how they begin; what is between them is left out.
SHOWN = ("✓", "!", "✗", "?", " ", "change", "set together", "of the changes")


def answered(folder: Path) -> str:
    """Return what the command says of the question on the page."""
    (folder / "big.preflight.yaml").write_text(
        block_of(PAGE.name, "yaml", "preflight:"), encoding="utf-8"
    )
    return chaos(*COMMAND.split()[1:], folder=folder).out


def shortened(said: str) -> str:
    """Return the sections of an answer that are shown, with `…` for each gap."""
    sections = [part.rstrip() for part in re.split(r"\n\s*\n", said)]
    findings = next(n for n, part in enumerate(sections) if n > 1 and part[:1] in "✗!·")
    shown = [
        part if n != findings and part.startswith(SHOWN) else "…" for n, part in enumerate(sections)
    ]
    lines = "\n\n".join(part for part, _ in groupby(shown))
    return "\n".join(line.rstrip() for line in lines.splitlines())


def written(text: str, answer: str) -> str:
    """Return the page with the answer below the command."""
    block = re.compile(rf"(?<=\$ \.venv/bin/{re.escape(COMMAND)}\n).*?(?=\n```)", re.DOTALL)
    new, count = block.subn(lambda _: answer, text)
    assert count == 1, f"{PAGE} has no place for the answer"
    return new


def main() -> int:
    """Write it."""
    with tempfile.TemporaryDirectory() as folder:
        answer = shortened(answered(Path(folder)))
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(written(text, answer), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
