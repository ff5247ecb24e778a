"""What chaos adds to a run on Ray, where a restart's time goes, and how exactly it strikes.

Part of `make bench`. `overhead` needs a cluster of its own; `exactness` runs on the embedded
backend.
"""

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from chaos.audit.plans import build_base_plan
from chaos.faults.kill_worker import KillWorker
from chaos.launch.forked.backend import ForkBackend
from chaos.launch.ray.backend import RayBackend
from chaos.launch.ray.settings import TRAIN_ENV
from chaos.model.event import (
    ControllerState,
    FailureDecided,
    FaultInvoked,
    StepDone,
    WorkerGroupStarted,
    WorkerStarted,
)
from chaos.model.history import History
from chaos.model.plan import Op, Plan
from chaos.model.scenario import FailureBudget
from chaos.model.trigger import AtStep, AtTime, Trigger
from tests.bench.bench import DIGITS, ROOT, execute, spread, struck, timed

EPOCHS = 6
PLACE = AtStep(epoch=2, step=5, rank=1)
OVERHEAD_RUNS = 3
TRIES = 20

# What somebody writes who has no chaos: the train function ends its own process, once.
BY_HAND = textwrap.dedent(
    """
    import os, signal
    from pathlib import Path
    import torch.optim.optimizer as optim
    import digits_ddp

    def killed_once(train_loop):
        def wrapped(config):
            import ray.train
            rank, steps = ray.train.get_context().get_world_rank(), []
            def step_done(optimizer, args, kwargs):
                steps.append(1)
                mark = Path({mark!r})
                if rank == {rank} and len(steps) == {steps} and not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
            optim.register_optimizer_step_post_hook(step_done)
            train_loop(config)
        return wrapped

    digits_ddp.train_loop = killed_once(digits_ddp.train_loop)
    digits_ddp.main()
    """
)


def digits_plan(ops: Sequence[Op] = ()) -> Plan:
    base = build_base_plan(DIGITS, ["--epochs", str(EPOCHS)], cwd=ROOT, seed=0)
    job = base.job.model_copy(update={"failure": FailureBudget(max_failures=1)})
    return base.model_copy(update={"job": job, "ops": tuple(ops)})


def killing(at: Trigger) -> Plan:
    return digits_plan([Op(index=0, at=at, kill_worker=KillWorker())])


def overhead(folder: Path) -> None:
    """Compare a kill through chaos with the same job and a kill written by hand; one cluster."""
    plan = killing(PLACE).model_copy(update={"backend": "ray"})
    with RayBackend() as ray:
        clean = execute(ray, plan.model_copy(update={"ops": ()}), folder)
        steps = sum(
            1 for _, e in clean.select_events(StepDone) if e.rank == 1 and e.epoch < PLACE.epoch
        )
        address = ray_address()
        through, bare, histories = [], [], []
        for number in range(OVERHEAD_RUNS):
            seconds, history = timed(lambda: struck(ray, plan, folder, clean))
            through.append(seconds)
            histories.append(history)
            bare.append(by_hand(folder / f"by-hand-{number}", address, steps + PLACE.step))
    print(f"ray: a kill through chaos                   {spread(through)}")
    print(f"ray: the same, with a kill by hand          {spread(bare)}")
    ratio = statistics.median(through) / statistics.median(bare)
    print(f"chaos / by hand                             {ratio:.2f}x")
    for name, values in parts_of(histories).items():
        print(f"  of its restart: {name:27} {spread(values)}")


def ray_address() -> str:
    """Return the address of the cluster that this process is connected to."""
    import ray

    return str(ray.get_runtime_context().gcs_address)


def by_hand(folder: Path, address: str, steps: int) -> float:
    """Return the seconds of a bare script that kills one of its own ranks."""
    folder.mkdir()
    script = folder / "by_hand.py"
    shutil.copy(DIGITS, folder)  # beside the script: its workers import nothing from elsewhere
    mark = str(folder / "killed")
    script.write_text(BY_HAND.format(mark=mark, rank=PLACE.rank, steps=steps))
    # Ray Train keeps its checkpoints in the home directory where a script names no storage.
    env = {**os.environ, **TRAIN_ENV, "RAY_ADDRESS": address, "HOME": str(folder)}
    command = [sys.executable, str(script), "--epochs", str(EPOCHS)]
    start = time.perf_counter()
    done = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert Path(mark).exists(), "nobody was killed"
    return seconds


def parts_of(histories: Sequence[History]) -> dict[str, list[float]]:
    """Split the time from a kill to the next attempt's first step, in seconds."""
    found: dict[str, list[float]] = {}
    for history in histories:
        marks = dict(moments(history))
        for before, name in pairwise(marks):
            found.setdefault(name, []).append((marks[name] - marks[before]) / 1e9)
    return found


def moments(history: History) -> Iterator[tuple[str, int]]:
    """Yield the moments of a restart, each with the name of what ends there."""
    times = history.time_ns

    def first(kind: Any, says: Callable[[Any], bool]) -> int:
        return next(times(n) for n, e in history.select_events(kind) if says(e))

    struck_ns = first(FaultInvoked, lambda _: True)
    yield "the kill", struck_ns
    decided_ns = first(FailureDecided, lambda _: True)
    yield "detect", decided_ns
    after = [times(n) for n, e in history.select_events(ControllerState) if e.state == "SCHEDULING"]
    yield "teardown", next(ns for ns in after if ns > decided_ns)
    yield (
        "processes, imports",
        min(times(n) for n, e in history.select_events(WorkerStarted) if e.attempt == 1),
    )
    yield "process group", first(WorkerGroupStarted, lambda e: e.attempt == 1)
    yield "first step", first(StepDone, lambda e: e.attempt == 1)


def exactness(folder: Path) -> None:
    """Count how often a kill lands where it was planned: by place, and by the clock."""
    with ForkBackend() as fork:
        clean = execute(fork, digits_plan(), folder)
        came_ns = next(
            clean.time_ns(n)
            for n, e in clean.select_events(StepDone)
            if (e.epoch, e.step, e.rank) == (PLACE.epoch, PLACE.step, PLACE.rank)
        )
        began_ns = next(clean.time_ns(n) for n, _ in clean.select_events(WorkerGroupStarted))
        by_clock = AtTime(seconds=(came_ns - began_ns) / 1e9, rank=PLACE.rank)
        for name, at in (("place", PLACE), ("the clock", by_clock)):
            histories = [execute(fork, killing(at), folder) for _ in range(TRIES)]
            hits = sum(last_step(history) == (PLACE.epoch, PLACE.step) for history in histories)
            print(f"kills by {name:10} that hit their (epoch, step)  {hits} of {TRIES}")


def last_step(history: History) -> tuple[int, int] | None:
    """Return the place that the killed rank had come to."""
    struck_at = next((n for n, _ in history.select_events(FaultInvoked)), None)
    steps = [
        (e.epoch, e.step)
        for n, e in history.select_events(StepDone)
        if e.rank == PLACE.rank and e.attempt == 0 and (struck_at is None or n < struck_at)
    ]
    return steps[-1] if steps and struck_at is not None else None


def main() -> None:
    chosen = set(sys.argv[1:])
    for part in (exactness, overhead):
        if not chosen or part.__name__ in chosen:
            with contextlib.ExitStack() as closing:
                part(Path(closing.enter_context(tempfile.TemporaryDirectory())))


if __name__ == "__main__":
    main()
