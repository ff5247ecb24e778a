"""Starts of workers on the embedded backend, beside processes that keep all cores busy.

    python -m tests.campaigns.forks --tries 2000 --seed 1

A job fails and starts again as often as it is asked to, each time with all its workers. None of
the starts may be stuck, and none lost: each worker that was to start has said that it did.
"""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import ChaosError
from chaos.launch.environment import HASH_SEED
from chaos.launch.forked.backend import ForkBackend
from chaos.launch.forked.handles import end_root
from chaos.model.event import DeadlinePassed, DriverExited, WorkerStarted
from chaos.model.expect import Expect
from chaos.model.history import History
from chaos.model.plan import Plan, Shape
from chaos.model.scenario import FailureBudget, Job, Limits
from chaos.run.directory import create_run
from chaos.run.journal import read_history
from tests.campaigns.commands import TOKEN, Place, end, look_for_leftovers, place
from tests.campaigns.frame import CODES, Asked, Tally, main, say

STUCK, LOST = "stuck", "lost"
SCRIPT = Path(__file__).parent / "jobs" / "starts.py"
BUSY = 8
WORKERS_MAX, ATTEMPTS_MAX = 12, 12
LIMIT_S = 300.0
SPINS = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100000))"


@dataclass(frozen=True)
class Starts:
    """What one run asks for: so many workers, so many times."""

    workers: int
    attempts: int

    @property
    def count(self) -> int:
        """How many workers are started."""
        return self.workers * self.attempts


def campaign(asked: Asked) -> Tally:
    """Start at least so many workers."""
    tally = Tally("starts of workers", asked.seed, (STUCK, LOST))
    draw = random.Random(asked.seed)
    with place() as here:
        first = _plan(here, Starts(1, 1))
        with busy(BUSY), ForkBackend() as backend:
            while tally.tries < asked.tries:
                left = asked.tries - tally.tries
                _run(backend, here, _drawn(draw, left), tally)
        end_root(first, HASH_SEED)
        look_for_leftovers(here, tally, "in the end")
    tally.figures["busy processes beside"] = BUSY
    return tally


def _drawn(draw: random.Random, left: int) -> Starts:
    workers = min(left, draw.randint(2, WORKERS_MAX))
    return Starts(workers, max(1, min(left // workers, draw.randint(4, ATTEMPTS_MAX))))


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep the machine busy with so many processes, which end with this one."""
    with ExitStack() as opened:
        for _ in range(count):
            process = opened.enter_context(subprocess.Popen([sys.executable, "-c", SPINS]))
            opened.callback(process.kill)
        yield


def _plan(here: Place, starts: Starts) -> Plan:
    count = here.folder / f"count-{os.urandom(4).hex()}"
    return Plan(
        scenario="starts",
        slug="starts",
        file=str(SCRIPT),
        seed=0,
        backend="fork",
        cwd=str(here.folder),
        job=Job(
            script=str(SCRIPT),
            args={"attempts": starts.attempts, "workers": starts.workers, "count": str(count)},
            workers=starts.workers,
            failure=FailureBudget(max_failures=starts.attempts),
            env={TOKEN: here.token, "TMPDIR": str(here.temporary)},
        ),
        shape=Shape(nodes=starts.workers, cpus_per_node=1),
        ops=(),
        expect=Expect(),
        limits=Limits(run_s=LIMIT_S),
    )


def _run(backend: ForkBackend, here: Place, starts: Starts, tally: Tally) -> None:
    """Carry out one run, from a start of the script and a lane of its own."""
    plan = _plan(here, starts)
    what = f"run {tally.figures['runs']}, {starts}"
    tally.tries += starts.count
    tally.figures["runs"] += 1
    directory = create_run(here.folder / "rep", "run", plan, {})
    try:
        backend.execute(plan, directory, lambda _: None)
    except ChaosError as error:
        tally.violated(LOST, f"{what}: {error}")
        end(here.processes())
        return
    _judge(read_history(directory.journals), starts, tally, what)


def _judge(history: History, starts: Starts, tally: Tally, what: str) -> None:
    started = {(event.attempt, event.rank) for _, event in history.select_events(WorkerStarted)}
    wanted = {(a, r) for a in range(starts.attempts) for r in range(starts.workers)}
    codes = [event.code for _, event in history.select_events(DriverExited)]
    say(f"{what}: {len(started)} started, codes {codes}")
    if any(True for _ in history.select_events(DeadlinePassed)):
        tally.violated(STUCK, f"{what}: {len(started)} came until the deadline")
    elif started != wanted:
        tally.violated(LOST, f"{what}: {sorted(started ^ wanted)[:5]}")
    elif codes != [0]:
        tally.violated(CODES, f"{what}: {codes}")


if __name__ == "__main__":
    main(campaign, tries=2_000)
