"""The gain of an audit by more processors: a simulation, fed with costs measured in this one run.

A lane executes a run; then the harness judges it and writes it down, one run at a time, as its
threads share one interpreter. Transfers and the start of the lanes are left out.
"""

import heapq
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
JOB = ["scenarios/jobs/digits_ddp.py", "--one-by-one", "--no-confirm", "--format", "json"]
PLACES = 32
CORES = (2, 16, 64, 256)
RUNS = 1000
# Runs the command line, and adds up the processor time of judging a run and writing it down. What
# else the harness does for a run here, to watch it, a lane on a cluster does there.
TOLD = """
import atexit, sys, time
from chaos.audit.folder import AuditFolder
from chaos.cli import main
own, spent = AuditFolder.settle, []
def settle(*words, **named):
    start = time.thread_time()
    try:
        return own(*words, **named)
    finally:
        spent.append(time.thread_time() - start)
AuditFolder.settle = settle
atexit.register(lambda: print("settled:", sum(spent) / len(spent), file=sys.stderr))
main()
"""


def audit(folder: str) -> tuple[float, float]:
    """Return the mean time of a run with a fault, and of judging it and writing it down."""
    words = [*JOB, "--max-runs", str(PLACES), "--reports", folder, "--", "--epochs", "4"]
    done = subprocess.run(
        [sys.executable, "-c", TOLD, "audit", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"settled: ([\d.]+)", done.stderr)
    assert found is not None, done.stderr[-2000:]
    runs = json.loads(done.stdout)["runs"]
    return sum(run["seconds"] for run in runs) / len(runs), float(found[1])


def makespan(runs: int, lanes: int, *, run_s: float, judge_s: float) -> float:
    """Return the time of so many runs: a lane takes the next one when its last one is judged."""
    free, judge_free = [0.0] * min(lanes, runs), 0.0
    for _ in range(runs):
        executed = heapq.heappop(free) + run_s
        judge_free = max(executed, judge_free) + judge_s
        heapq.heappush(free, judge_free)
    return judge_free


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_s, judge_s = audit(folder)
    print(f"measured: a run {run_s:.2f} s, {judge_s:.3f} s of the harness for each")
    for name, length in (("this job", run_s), ("runs of 20 s", 20.0)):
        base = makespan(RUNS, CORES[0], run_s=length, judge_s=judge_s)
        gains = (base / makespan(RUNS, n, run_s=length, judge_s=judge_s) for n in CORES)
        told = ", ".join(f"{n} cores {gain:.1f}" for n, gain in zip(CORES, gains, strict=True))
        print(f"simulated, {name}, {RUNS} runs, gain over {CORES[0]} cores: {told}")
    most = math.inf if judge_s <= 0 else run_s / judge_s
    print(f"the harness is busy throughout from {most:.0f} lanes on")


if __name__ == "__main__":
    main()
