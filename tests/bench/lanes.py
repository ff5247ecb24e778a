"""The time of an audit with more lanes: a simulation, fed with costs measured in this one run.

A lane executes a run; then the harness has work with it, one run at a time, as its threads share
one interpreter. Two measured audits in one lane give the costs: one on this machine, whose harness
judges, and one over a Ray cluster that is started here, whose lane does. All that the harness does
for a run is then in one thread, whose processor time is taken. The start of the lanes is left out.

    python -m tests.bench.lanes
"""

import contextlib
import heapq
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.ray.foreign import foreign_cluster

ROOT = Path(__file__).parents[2]
JOB = ["scenarios/jobs/digits_ddp.py", "--one-by-one", "--no-confirm", "--no-explain"]
PLACES = 24
LANES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
RUNS = (16, 1000)  # an answer for this job, and a thousand places
LONG_S = 20.0
# Runs the command line, and prints the processor time of judging a run and writing it down, and of
# the thread that makes the runs with faults, for all of them.
TOLD = """
import atexit, sys, time
from chaos.audit.audit import Audit
from chaos.audit.folder import AuditFolder
from chaos.cli import main
settled, injected = [0.0, 0], [0.0, 0]
def timed(cls, name, clock, into):
    own = getattr(cls, name)
    def called(*words, **named):
        start = clock()
        try:
            return own(*words, **named)
        finally:
            into[0] += clock() - start
            into[1] += 1
    setattr(cls, name, called)
timed(AuditFolder, "judge_journals", time.thread_time, settled)
timed(Audit, "_inject_all", time.thread_time, injected)
def tell():
    print("settled:", settled[0] / settled[1], "injected:", injected[0], file=sys.stderr)
atexit.register(tell)
main()
"""


@dataclass(frozen=True)
class Costs:
    """The seconds that a run takes its lane and the harness."""

    run_s: float
    judge_s: float
    #: all that the harness does for a run in a lane of its own machine, which it judges
    here_s: float
    #: likewise for a lane of a cluster, which judges
    there_s: float

    def __str__(self) -> str:
        return (
            f"measured: a run {self.run_s:.2f} s, of the harness's processor "
            f"{1e3 * self.judge_s:.0f} ms to judge it; {1e3 * self.there_s:.0f} ms in all with "
            f"lanes on a cluster that judge, {1e3 * self.here_s:.0f} ms with lanes of its own, "
            "which it watches"
        )

    def lasting(self, run_s: float) -> "Costs":
        return Costs(run_s, self.judge_s, self.here_s, self.there_s)

    @property
    def in_harness(self) -> "Way":
        return Way(self.run_s, self.there_s + self.judge_s)

    @property
    def in_lanes(self) -> "Way":
        return Way(self.run_s + self.judge_s, self.there_s)


@dataclass(frozen=True)
class Way:
    """The seconds of a run in its lane, and those of the harness after it."""

    run_s: float
    harness_s: float

    @property
    def most_lanes(self) -> float:
        """The number of lanes from which on the harness is busy throughout."""
        return math.inf if self.harness_s <= 0 else 1 + self.run_s / self.harness_s

    def makespan(self, runs: int, lanes: int) -> float:
        """Return the time of so many runs: a lane takes the next once its last one is done with."""
        free, harness_free = [0.0] * min(lanes, runs), 0.0
        for _ in range(runs):
            executed = heapq.heappop(free) + self.run_s
            harness_free = max(executed, harness_free) + self.harness_s
            heapq.heappush(free, harness_free)
        return harness_free


def measured() -> Costs:
    """Return the costs of two audits, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        run_s, judge_s, here_s = audit(folder)
        with foreign_cluster(nodes=1) as cluster:
            _, _, there_s = audit(folder, "--address", cluster.address, env=cluster.environment())
    return Costs(run_s, judge_s, here_s, there_s)


def audit(
    folder: str, *options: str, env: Mapping[str, str] | None = None
) -> tuple[float, float, float]:
    """Return the mean time of a run, of judging one, and of all that the harness does for one."""
    words = [*JOB, "--jobs", "1", "--max-runs", str(PLACES), "--reports", folder, *options]
    done = subprocess.run(
        [sys.executable, "-c", TOLD, "audit", *words, "--format", "json", "--", "--epochs", "4"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"settled: (\S+) injected: (\S+)", done.stderr)
    assert found is not None, done.stderr[-2000:]
    runs = json.loads(done.stdout)["runs"]
    each = sum(run["seconds"] for run in runs) / len(runs)
    return each, float(found[1]), float(found[2]) / len(runs)


def simulated(costs: Costs) -> Iterator[str]:
    """Yield the lines of a table: the time of so many runs by lanes, judged here or in the lanes.

    It is a simulation.
    """
    for length, of in (("this job", costs), (f"runs of {LONG_S:.0f} s", costs.lasting(LONG_S))):
        for runs in RUNS:
            yield f"simulated, {length}, {runs} runs: lanes, judged by the harness, in the lanes"
            for lanes in LANES:
                here, there = (way.makespan(runs, lanes) for way in (of.in_harness, of.in_lanes))
                yield f"{lanes:>6} {here:>10.1f} s {there:>10.1f} s"
        most = [way.most_lanes for way in (of.in_harness, of.in_lanes)]
        yield f"the harness is busy throughout from {most[0]:.0f} and {most[1]:.0f} lanes on"


def main() -> None:
    with contextlib.chdir(ROOT):
        costs = measured()
    print(costs)
    print(f"watched from {costs.run_s / costs.here_s:.0f} lanes on this machine on, less often")
    for line in simulated(costs):
        print(line)


if __name__ == "__main__":
    main()
