"""An audit of a job without Ray, embedded against real torchrun, timed in this one run.

The seconds are of whole audits, fault-free runs and imports included. With `--imports MODULE`:
embedded alone, of a job that imports these modules, shared by its workers and not; the seconds are
of its runs with faults.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

JOB = Path(__file__).parents[1] / "torchrun/jobs/ddp.py"
NUMBERS = [word for word in sys.argv[1:] if word.isdigit()]
RUNS = NUMBERS[0] if NUMBERS else "6"
# A job with fewer modules than this many shares none.
OFF = "import chaos.launch.commands.shared_imports as ahead; ahead.LEAST = 10**9; "
CALLS = "from chaos.__main__ import main; main()"


def audit(backend: str, *, imports: str = "", shares: bool = True) -> tuple[float, dict[str, Any]]:
    """Return the seconds of an audit, and its card."""
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder, "ddp.py")
        job.write_text(imports + JOB.read_text(encoding="utf-8"), encoding="utf-8")
        words = ["audit", str(job), "--backend", backend, "--max-runs", RUNS, "--jobs", "1"]
        code = CALLS if shares else OFF + CALLS
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", code, *words, "--format", "json", "--", "--epochs", "3"],
            cwd=folder,
            capture_output=True,
            check=False,
        )
        seconds = time.perf_counter() - start
    assert done.returncode in (0, 2), done.stderr[-2000:]
    card = json.loads(done.stdout)
    assert card["verdict"]["broken"] == 0
    return seconds, card


def run_s(*, imports: str, shares: bool) -> float:
    """Return the seconds of a run with a fault."""
    _, card = audit("fork", imports=imports, shares=shares)
    seconds: float = sum(run["seconds"] for run in card["runs"])
    runs: int = card["run_count"]
    return seconds / runs


def main() -> None:
    if "--imports" in sys.argv:
        heavy = f"import {sys.argv[-1]}\n"
        plain = run_s(imports="", shares=True)
        shared, own = (run_s(imports=heavy, shares=shares) for shares in (True, False))
        print(f"a run with a fault: {plain:.1f} s plain; with imports, {shared:.1f} s shared")
        print(f"({shared / plain:.1f} times) and {own:.1f} s by each worker ({own / plain:.1f})")
        return
    (took, card), (real_took, real_card) = audit("fork"), audit("torchrun")
    places, real_places = (each["verdict"]["places"]["tried"] for each in (card, real_card))
    assert places == real_places
    print(f"{places} places: {took:.0f} s embedded, {real_took:.0f} s on torchrun")
    print(f"ratio: {real_took / took:.1f}")


if __name__ == "__main__":
    main()
