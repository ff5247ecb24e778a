"""The environment of CI: the file for a step's summary, and whether GitHub reads the output."""

import sys
from collections.abc import Mapping
from pathlib import Path

# Of GitHub: it drops the whole summary of a step that is longer.
STEP_LIMIT_BYTES = 1_048_576


def on_github(environ: Mapping[str, str]) -> bool:
    """Return whether GitHub Actions reads the output."""
    return environ.get("GITHUB_ACTIONS") == "true"


def add_to_step_summary(environ: Mapping[str, str], text: str) -> bool:
    """Append Markdown to the step's summary; return whether there is one and it was written.

    A summary that would become too long for GitHub is left as it is: GitHub would drop
    all of it.
    """
    path = environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return False
    file = Path(path)
    try:
        there = file.stat().st_size if file.exists() else 0
        if there + len(text.encode()) > STEP_LIMIT_BYTES:
            return _left_out(file, "it would be longer than GitHub shows")
        with file.open("a", encoding="utf-8") as summary:
            summary.write(text + "\n")
    except OSError as error:
        return _left_out(file, error.strerror or str(error))
    return True


def _left_out(file: Path, why: str) -> bool:
    """Note on stderr that the summary is missing; the verdict does not depend on it."""
    sys.stderr.write(f"chaos: the step's summary was not written to {file}: {why}\n")
    return False


def place_of_scenario(file: Path, environ: Mapping[str, str]) -> tuple[str, int]:
    """Return a scenario's file, from the repository's root, and the line of its name."""
    root = Path(environ.get("GITHUB_WORKSPACE", ".")).resolve()
    try:
        shown = str(file.resolve().relative_to(root))
    except ValueError:
        shown = str(file)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (number for number, line in enumerate(lines, 1) if line.startswith("scenario:"))
    return shown, next(named, 1)
