"""`chaos` as a process of its own, as a shell starts it."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHAOS = [sys.executable, "-m", "chaos"]


def environment(**more: str) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    return {**ours, "PYTHONPATH": str(ROOT), "COLUMNS": "80", **more}


def shell(line: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash, in which `$CHAOS` is the command; `$?` is that of the first in a pipe."""
    return subprocess.run(
        ["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}"],
        cwd=folder,
        env=environment(CHAOS=" ".join(CHAOS), **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
