"""An audit of a job without Ray, embedded against real torchrun, timed in this one run.

The seconds are of whole audits, fault-free runs and imports included.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

JOB = Path(__file__).parents[1] / "torchrun/jobs/ddp.py"
RUNS = sys.argv[1] if len(sys.argv) > 1 else "6"


def audit(backend: str) -> tuple[float, dict[str, Any]]:
    """Return the seconds of an audit, and its card."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["audit", str(JOB), "--backend", backend, "--max-runs", RUNS, "--jobs", "1"]
        start = time.perf_counter()
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
    return seconds, card


def main() -> None:
    (took, card), (real_took, real_card) = audit("fork"), audit("torchrun")
    places, real_places = (each["verdict"]["places"]["tried"] for each in (card, real_card))
    assert places == real_places
    print(f"{places} places: {took:.0f} s embedded, {real_took:.0f} s on torchrun")
    print(f"ratio: {real_took / took:.1f}")


if __name__ == "__main__":
    main()
