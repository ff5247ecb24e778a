"""A search against plans drawn at random, on jobs whose defect no single fault shows.

For each job of the corpus: the plans and seconds that `chaos search` takes until its smallest plan
is found and repeated, and what as many plans of `chaos run --random` show.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
JOBS = {
    "skipped_batches": "cursor",
    "harbor_waves": "resume-point",
    "melting_points": "state",
    "pollen_counts": "state",
    "orchid_petals": "state",
}
SCENARIO = "scenario: {name}\njob: {{script: {script}, workers: 1}}\nfaults: []\n"


class Row(NamedTuple):
    """Plans, seconds, and the faults of the smallest plan that fails; None: no such plan."""

    plans: int
    seconds: float
    faults: int | None


def _chaos(folder: Path, *words: str) -> tuple[dict[str, Any], float]:
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "chaos", *words, "--format", "json", "--reports", str(folder)],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 1, 2), done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found, time.perf_counter() - start


def searched(name: str, check: str, plans: int) -> Row:
    script = str(ROOT / f"tests/corpus/jobs/wrong/{name}.py")
    with tempfile.TemporaryDirectory() as folder:
        result, seconds = _chaos(
            Path(folder), "search", script, "--workers", "1", "--max-runs", str(plans)
        )
    sizes = [len(f["row"]["ops"]) for f in result["found"] if f["cause"]["check"] == check]
    return Row(result["plans"], seconds, min(sizes, default=None))


def drawn(name: str, check: str, plans: int) -> Row:
    script = str(ROOT / f"tests/corpus/jobs/wrong/{name}.py")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.chaos.yaml"
        file.write_text(SCENARIO.format(name=name, script=script), encoding="utf-8")
        words = ("run", str(file), "--backend", "fork", "--random", str(plans))
        suite, seconds = _chaos(Path(folder), *words)
        runs = Path(folder) / "suites" / suite["started"]
        shown = [runs / run["directory"] for run in suite["runs"] if run["broken"] == check]
        sizes = [len(json.loads((path / "plan.json").read_text())["ops"]) for path in shown]
    return Row(len(suite["runs"]), seconds, min(sizes, default=None))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plans", type=int, default=120)
    plans = parser.parse_args().plans
    print("| job | search: faults | plans, s | random: faults | plans, s |")
    print("| --- | --: | --: | --: | --: |")
    for name, check in JOBS.items():
        ours, theirs = searched(name, check, plans), drawn(name, check, plans)
        cells = (
            name,
            str(ours.faults),
            f"{ours.plans}, {ours.seconds:.0f}",
            str(theirs.faults),
            f"{theirs.plans}, {theirs.seconds:.0f}",
        )
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
