"""The wait for a wrong job's first finding, in clean runs, over the jobs of the corpus with a bug.

    python -m tests.bench.first_findings [N]

Each is audited up to its first finding, with one lane; with a number, every N-th job alone. The
time runs from the end of the clean runs to the line on the screen.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from chaos.extensions.lab.selftest.corpus import CorpusJob, load_corpus

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests/corpus"


def command(job: CorpusJob, folder: Path) -> list[str]:
    words = [sys.executable, "-m", "chaos", "audit", str(job.script(CORPUS)), "--exitfirst"]
    words += ["--launcher", job.launcher, "--workers", str(job.workers), "--jobs", "1"]
    words += ["--retries", str(job.retries)] if job.retries is not None else []
    words += ["--no-confirm", "--max-runs", "18", "--reports", str(folder)]
    words += ["--output", str(folder / "audit.json")]
    return [*words, "--", *job.args] if job.args else words


def waited_s(lines: Sequence[tuple[float, str]]) -> float | None:
    """Return the seconds from the first line on faults to that on a finding, if there is one."""
    began = next((at for at, line in lines if line.startswith("faults")), None)
    found = next((at for at, line in lines if line.startswith("found:")), None)
    return None if began is None or found is None else found - began


def measured(job: CorpusJob) -> float | None:
    with tempfile.TemporaryDirectory() as made:
        folder, lines = Path(made), list[tuple[float, str]]()
        with subprocess.Popen(
            command(job, folder),
            cwd=folder,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append((time.perf_counter(), line))
        card = folder / "audit.json"
        seconds = waited_s(lines)
        if seconds is None or not card.is_file():
            return None
        clean_s: float = json.loads(card.read_bytes())["job"]["clean_s"]
        return seconds / clean_s


def main() -> None:
    every = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    wrong = [job for job in load_corpus(CORPUS) if job.bug is not None and not job.missing]
    found = list[float]()
    for job in wrong[::every]:
        ratio = measured(job)
        said = "no finding in the runs" if ratio is None else f"{ratio:.1f} clean runs"
        print(f"{job.name}: {said}", flush=True)
        found += [] if ratio is None else [ratio]
    median = f"{statistics.median(found):.1f}" if found else "-"
    print(f"first finding of {len(found)} jobs: {median} clean runs in the median")


if __name__ == "__main__":
    main()
