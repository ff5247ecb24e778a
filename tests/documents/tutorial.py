"""The tutorial, followed: its files are written, its changes made, and its commands called.

`python -m tests.documents.tutorial` writes what they print today into the page.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.documents.blocks import ROOT, Block, blocks

PAGE = ROOT / "docs/tutorial.md"
# Of equal length, since a path in a frame decides where its lines end.
FOLDER, SHOWN = Path("/tmp/tour/job"), "/home/you/job"
CUT = "…"
# As on a terminal of 80 columns, without colours and without a line that moves.
TERMINAL = {"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "80"}
# The parts of an audit that the page shows: the answer, the findings, and what was tried.
SHOWN_PARTS = ("✗ ", "✓ ", "╭─", "tried", "equal")
_TIMES = re.compile(r"^ *\d+\.\d s ")


@dataclass(frozen=True)
class Step:
    """One command of the page: what it shows of the output, and what came out."""

    block: Block
    command: str
    shown: str
    printed: str


def follow(folder: Path) -> Iterator[Step]:
    """Do in a folder what the page says, in its order."""
    for block in blocks():
        if block.document != PAGE:
            continue
        match block.language:
            case "python":
                (folder / "train.py").write_text(block.text, encoding="utf-8")
            case "diff":
                text = block.text.encode()
                subprocess.run(["git", "apply", "-"], cwd=folder, input=text, check=True)
            case "console":
                yield from _commands(block, folder)
            case _:  # how chaos is installed
                pass


def _commands(block: Block, folder: Path) -> Iterator[Step]:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        words = shlex.split(command, comments=True)
        assert words[0] == "chaos", command
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **TERMINAL},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        yield Step(block, command, shown, done.stdout.replace(str(folder), SHOWN))


def told(text: str) -> str:
    """Return a text as it is the same on every machine: no frame, no figures, and no groups."""
    text = re.sub(r"\d{8}T\d{6}", "START", text)
    # Which places are tried, and how many, follows from what the runs before have cost.
    text = re.sub(r"\d+(?:\.\d+)?", "N", text)
    text = re.sub(r"N places?", "N places", text)
    words = " ".join(re.sub(r"[╭╮╰╯│─]", " ", text).split())
    return re.sub(r"where (?:[a-z -]+ \(N\),? ?)+", "where … ", words).strip()


def excerpt(printed: str) -> str:
    """Return what the page shows of an output; what is left out is a line of its own."""
    lines = [line.rstrip() for line in printed.splitlines() if not _TIMES.match(line)]
    start = next((n for n, line in enumerate(lines) if line.startswith(("✗ ", "✓ "))), 0)
    if "fault-free" not in printed and "clean run" not in printed:
        return "\n".join(lines) + "\n"
    kept: list[str] = []
    for part in "\n".join(lines[start:]).split("\n\n"):
        is_kept = part.startswith(SHOWN_PARTS)
        if is_kept or kept[-1:] != [CUT]:
            kept.append(part if is_kept else CUT)
    return f"{CUT}\n" + "\n\n".join(kept).replace(f"\n\n{CUT}", f"\n{CUT}") + "\n"


def main() -> None:
    """Write today's outputs into the page."""
    FOLDER.mkdir(parents=True)
    try:
        steps = [*follow(FOLDER)]
    finally:
        subprocess.run(["rm", "-r", str(FOLDER.parent)], check=True)
    page, at = PAGE.read_text(encoding="utf-8"), 0
    for step in steps:
        at = page.index(f"$ {step.command}\n{step.shown}", at) + len(f"$ {step.command}\n")
        page = page[:at] + excerpt(step.printed) + page[at + len(step.shown) :]
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
