"""A search against plans drawn at random, on jobs whose defect no single fault shows.

For each job of the corpus: the plans and seconds that `chaos search` takes to the smallest
plan, and the seconds that as many plans of `chaos run --random` take, with the fewest faults of
those that fail by the same check.
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
    "quarry_dust": "state",
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
    found = [f for f in result["found"] if f["cause"]["check"] == check and f["is_smallest"]]
    if not found:
        return Row(result["plans"], seconds, None)
    least = min(found, key=lambda f: len(f["row"]["ops"]))
    return Row(least["plans"], least["seconds"], len(least["row"]["ops"]))


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
    parser.add_argument("--plans", type=int, default=60)
    plans = parser.parse_args().plans
    print("| job | search: faults | plans, s | random: faults | plans, s |")
    print("| --- | --: | --: | --: | --: |")
    for name, check in JOBS.items():
        ours = searched(name, check, plans)
        theirs = drawn(name, check, ours.plans)
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
