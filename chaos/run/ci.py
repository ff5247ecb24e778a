"""The environment of CI: the file for a step's summary, and whether GitHub reads the output."""

import sys
from collections.abc import Mapping
from pathlib import Path

# Of GitHub: it drops the whole summary of a step that is longer.
STEP_LIMIT_BYTES = 1_048_576


def is_github_actions(environ: Mapping[str, str]) -> bool:
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
        size = file.stat().st_size if file.exists() else 0
        if size + len(text.encode()) > STEP_LIMIT_BYTES:
            return _report_omission(file, "it would be longer than GitHub shows")
        with file.open("a", encoding="utf-8") as summary:
            summary.write(text + "\n")
    except OSError as error:
        return _report_omission(file, error.strerror or str(error))
    return True


def _report_omission(file: Path, reason: str) -> bool:
    """Note on stderr that the summary is missing; the verdict does not depend on it."""
    sys.stderr.write(f"chaos: the step's summary was not written to {file}: {reason}\n")
    return False


def locate_scenario(file: Path, environ: Mapping[str, str]) -> tuple[str, int]:
    """Return a scenario's file, from the repository's root, and the line of its name."""
    root = Path(environ.get("GITHUB_WORKSPACE", ".")).resolve()
    try:
        path = str(file.resolve().relative_to(root))
    except ValueError:
        path = str(file)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    line_numbers = (number for number, line in enumerate(lines, 1) if line.startswith("scenario:"))
    return path, next(line_numbers, 1)
