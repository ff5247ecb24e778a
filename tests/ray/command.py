"""The command line, run as a user runs it, and a look at what it leaves behind."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
GUILTY = "scenarios/guilty/optimizer_state_lost.chaos.yaml"
DEMO = ("scenarios/smoke", GUILTY)
SAMPLE = ("tests/ray/several_faults.chaos.yaml",)


@dataclass(frozen=True)
class Ran:
    """One `chaos` command that has ended."""

    code: int
    output: str
    reports: Path

    def runs(self) -> list[Path]:
        """Return the folders of the runs, baselines apart."""
        return sorted(path.parent for path in self.reports.glob("[!.]*/*/plan.json"))


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "chaos", *map(str, words)]


def chaos(*words: str | Path, reports: Path) -> Ran:
    with_reports: list[str | Path] = []
    if words[0] in ("run", "replay"):
        with_reports = ["--reports", reports]
    return ended(command(*words, *with_reports), reports=reports)


def ended(line: list[str], *, reports: Path, env: dict[str, str] | None = None) -> Ran:
    """Execute a command line, and return what came of it."""
    done = subprocess.run(
        line,
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Ran(code=done.returncode, output=done.stdout, reports=reports)


def strays() -> list[str]:
    """Return the processes of any cluster that chaos started and that are still there."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if "chaos-ray-" in line or "chaos.launch.ray.driver" in line:
            found.append(line[:160])
    return found
