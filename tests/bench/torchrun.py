"""An audit of a job without Ray, embedded against real torchrun, timed in this one run.

The seconds are of whole audits, fault-free runs and imports included.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JOB = Path(__file__).parents[1] / "torchrun/jobs/ddp.py"
RUNS = sys.argv[1] if len(sys.argv) > 1 else "6"


def audit(backend: str) -> tuple[float, int]:
    """Return the seconds of an audit, and the places that were tried."""
    words = ["audit", str(JOB), "--backend", backend, "--max-runs", RUNS, "--no-confirm"]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "chaos", *words, "--format", "json", "--", "--epochs", "3"],
            cwd=folder,
            capture_output=True,
            check=False,
        )
    seconds = time.perf_counter() - start
    assert done.returncode in (0, 2), done.stderr[-2000:]
    card = json.loads(done.stdout)
    assert card["verdict"]["broken"] == 0
    return seconds, card["verdict"]["places"]["tried"]


def main() -> None:
    (took, places), (real_took, real_places) = audit("fork"), audit("torchrun")
    assert places == real_places
    print(f"{places} places: {took:.0f} s embedded, {real_took:.0f} s on torchrun")
    print(f"ratio: {real_took / took:.1f}")


if __name__ == "__main__":
    main()
