"""The figures of docs/benchmarks.md, measured here and now: `make bench`.

Each is a ratio of two things timed in this one run, or a duration that says
what it includes; none is a test, because machines differ and are noisy.
"""

import contextlib
import importlib.util
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from chaos.audit.job_profile import measure_job
from chaos.audit.lanes import count_lanes, run_side_by_side
from chaos.audit.plans import build_base_plan, build_fault_plan
from chaos.audit.site_category import SiteCategory
from chaos.audit.site_sample import choose_fault_sites
from chaos.check.judge import judge
from chaos.extensions.preflight.forecast import simulate
from chaos.extensions.preflight.market import find_preset
from chaos.extensions.preflight.question import change_question
from chaos.launch.forked.backend import ForkBackend
from chaos.launch.ray.backend import RayBackend
from chaos.model.event import WatchCost
from chaos.model.history import History
from chaos.model.plan import Plan
from chaos.model.watch import Watch
from chaos.probe.cursor import Cursor, Recorder
from chaos.probe.steps import StepHook
from chaos.probe.training_listener import TrainingListener
from chaos.probe.watchers import Watchers
from chaos.run.clock import SystemClock
from chaos.run.directory import create_run
from chaos.run.journal import Journal, read_history
from chaos.run.machine import usable_cpus
from chaos.run.ports import OpenBackend
from tests.bench.spans import (
    attempt_starts_s,
    embedded_bytes,
    parts_s,
    restart_s,
    training_s,
)
from tests.extensions.preflight.questions import sound_question

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "scenarios/jobs/digits_ddp.py"
STEP_GROUPS: tuple[SiteCategory, ...] = (
    "before the first commit",
    "mid-epoch",
    "epoch boundary",
    "last epoch",
)
MID_EPOCH: tuple[SiteCategory, ...] = ("mid-epoch",)
SAMPLE = 20
SIDE_SAMPLE = 60
RAY_SAMPLE = 3
EPOCHS, EPOCH_STEPS = 40, 23
FORECASTS = 10_000


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def execute(backend: OpenBackend, plan: Plan, folder: Path) -> History:
    directory = create_run(folder, plan.slug, plan, {})
    backend.execute(plan, directory, lambda _: None)
    return read_history(directory.journals)


def struck(backend: OpenBackend, plan: Plan, folder: Path, baseline: History) -> History:
    history = execute(backend, plan, folder)
    verdict = judge(plan, history, baseline)
    assert verdict.status == "pass", verdict.headline
    return history


def spread(values: Sequence[float]) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.2f} s (min {low:.2f}, max {high:.2f}, n={len(values)})"


def together(plans_: Sequence[Plan], folder: Path, clean: History, first: ForkBackend) -> float:
    """Execute all plans, as many side by side as an audit would; gives the seconds.

    They include the start of the further lanes.
    """
    lanes = count_lanes(usable_cpus(), workers=plans_[0].job.workers)
    with contextlib.ExitStack() as opened:
        more = [opened.enter_context(first.open_parallel()) for _ in range(lanes - 1)]

        def work(backend: Any, plan: Plan) -> None:
            struck(backend, plan, folder, clean)  # nothing of it stays, as in an audit

        seconds, _ = timed(lambda: list(run_side_by_side(work, plans_, [first, *more])))
    return seconds


def against_a_warm_cluster(folder: Path) -> None:
    """Compare the same places on the embedded backend and on a warm local Ray cluster."""
    base = build_base_plan(DIGITS, ["--epochs", "4"], cwd=ROOT, seed=0)
    with ForkBackend() as fork:
        first_s, clean = timed(lambda: execute(fork, base, folder))
        seen = measure_job(clean)
        places = choose_fault_sites(seen, seed=0, exhaustive=True, wanted_groups=MID_EPOCH)
        every = [build_fault_plan(base, place, seen) for place in places[:SIDE_SAMPLE]]
        chosen = every[:SAMPLE]
        fork_s, histories = zip(
            *(timed(partial(struck, fork, p, folder, clean)) for p in chosen), strict=True
        )
    print(f"zygote start, imports to fit()              {first_s - training_s(clean):.2f} s")
    print(f"fork: clean run, fit() to its end           {training_s(clean):.2f} s")
    starts_s = [start_s for history in histories for start_s in attempt_starts_s(history)]
    print(f"fork: attempt start, to its first step      {spread(starts_s)}")
    print(f"fork: kill, restart, judge, one by one    {spread(fork_s)}")
    print(f"fork: fault to next attempt's first step    {spread([*map(restart_s, histories)])}")
    with ForkBackend() as fork:
        each_s = together(every, folder, clean, fork) / len(every)
    print(f"fork: more of them side by side, per run    {each_s:.2f} s (n={len(every)})")
    on_ray(folder, base, chosen[:RAY_SAMPLE], each_s)


def fixed_costs(folder: Path) -> None:
    """Tell what one run with a kill on the embedded backend is spent on, the judging included."""
    base = build_base_plan(DIGITS, ["--epochs", "4"], cwd=ROOT, seed=0)
    with ForkBackend() as fork:
        clean = execute(fork, base, folder)
        seen = measure_job(clean)
        places = choose_fault_sites(seen, seed=0, exhaustive=True, wanted_groups=MID_EPOCH)[:SAMPLE]
        parts: dict[str, list[float]] = {}
        for plan in (build_fault_plan(base, place, seen) for place in places):
            whole_s, history = timed(partial(execute, fork, plan, folder))
            judged_s, _ = timed(partial(judge, plan, history, clean))
            found = parts_s(history)
            rest = {"asking, reading the journals": whole_s - sum(found.values())}
            for name, seconds in {**found, **rest, "judging": judged_s}.items():
                parts.setdefault(name, []).append(seconds)
    whole = sum(map(statistics.median, parts.values()))
    for name, values in parts.items():
        middle = statistics.median(values)
        print(f"  {name:42} {1000 * middle:6.0f} ms  {middle / whole:4.0%}")
    print(f"  {'a run with a kill, judged':42} {1000 * whole:6.0f} ms  (n={len(places)})")


def on_ray(folder: Path, base: Plan, chosen: Sequence[Plan], fork_s: float) -> None:
    with RayBackend() as ray:
        clean = execute(ray, base.model_copy(update={"backend": "ray"}), folder)
        there = [plan.model_copy(update={"backend": "ray"}) for plan in chosen]
        ray_s, histories = zip(
            *(timed(partial(struck, ray, p, folder, clean)) for p in there), strict=True
        )
    print(f"ray, warm cluster: the same, per run        {spread(ray_s)}")
    starts_s = [start_s for history in histories for start_s in attempt_starts_s(history)]
    print(f"ray: attempt start, to its first step       {spread(starts_s)}")
    print(f"ray: fault to next attempt's first step     {spread([*map(restart_s, histories)])}")
    ratio = statistics.median(ray_s) / fork_s
    print(f"runs per second, fork side by side / ray    {ratio:.1f}x")


def exhaustive(folder: Path, *, most: int | None = None) -> None:
    """Kill every rank after every step of a job of 2 ranks and 6 x 8 steps."""
    words = ["--epochs", "6", "--batch-size", "96"]
    base = build_base_plan(DIGITS, words, cwd=ROOT, seed=0)
    with ForkBackend() as fork:
        clean = execute(fork, base, folder)
        seen = measure_job(clean)
        places = choose_fault_sites(seen, seed=0, exhaustive=True, wanted_groups=STEP_GROUPS)
        chosen = [build_fault_plan(base, place, seen) for place in places[:most]]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, embedded_bytes()
        seconds = together(chosen, folder, clean, fork)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, embedded_bytes()
    print(f"exhaustive: {len(chosen)} kill points                  {seconds:.1f} s, all pass")
    print(
        f"memory while it ran: harness +{(after[0] - before[0]) / 1024:.0f} MiB, "
        f"root, zygote and lane {(after[1] - before[1]) / 2**20:+.0f} MiB"
    )


def training(model: Any, batch: Any, target: Any) -> Callable[[], None]:
    """Return a training loop."""
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_fn = torch.nn.CrossEntropyLoss()

    def loop() -> None:
        for _ in range(EPOCH_STEPS):
            optimizer.zero_grad()
            loss_fn(model(batch), target).backward()
            optimizer.step()

    return loop


def digits_step() -> Callable[[], None]:
    """Return an epoch of scenarios/jobs/digits_ddp.py on one rank, as it is by default."""
    import torch

    spec = importlib.util.spec_from_file_location("digits_ddp", DIGITS)
    assert spec is not None
    assert spec.loader is not None
    job = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(job)
    batch, target = torch.rand(32, 1, 8, 8), torch.randint(0, 10, (32,))
    return training(job.build_model(), batch, target)


def tiny_step() -> Callable[[], None]:
    """Return an epoch of next to nothing: what is left is what is added."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    batch, target = torch.ones(32, 64), torch.zeros(32, dtype=torch.int64)
    return training(model, batch, target)


def in_a_process(job: str, watch: Watch | None, folder: Path) -> tuple[float, tuple[float, float]]:
    """Run epochs in a process of their own; gives microseconds per step, and the probe's account.

    `watch` None: nothing is hooked in. Hooks are never taken out of a process.
    """
    ours, theirs = multiprocessing.Pipe()
    fork = multiprocessing.get_context("fork")
    child = fork.Process(target=_epochs, args=(job, watch, folder, theirs))
    child.start()
    found: tuple[float, tuple[float, float]] = ours.recv()
    child.join()
    return found


def _epochs(job: str, watch: Watch | None, folder: Path, answer: Any) -> None:
    import torch

    torch.set_num_threads(1)
    loop = {"digits": digits_step, "tiny": tiny_step}[job]()
    loop()
    costs: list[tuple[float, float]] = []
    report = _watch(watch, folder, costs) if watch is not None else lambda: None
    seconds = []
    for _ in range(EPOCHS):
        start = time.process_time()  # one thread; what else the machine does is not in it
        loop()
        report()
        seconds.append(time.process_time() - start)
    per_step = statistics.median(seconds) / EPOCH_STEPS * 1e6
    answer.send((per_step, statistics.median_low(costs) if costs else (0.0, 0.0)))


def _watch(watch: Watch, folder: Path, costs: list[tuple[float, float]]) -> Callable[[], None]:
    """Install what a probe installs; gives what its report does."""
    journal = Journal(folder, f"worker-{os.getpid()}", role="worker", clock=SystemClock())
    cursor = Cursor(attempt=0, rank=0, epoch=0)

    def keep(event: Any) -> None:
        journal.add(event)
        if isinstance(event, WatchCost):
            costs.append((event.watch_ns / event.steps / 1e3, event.state_ns / event.steps / 1e3))

    record = Recorder(cursor, keep, print)
    watchers = Watchers(watch, record, TrainingListener())
    watchers.install(folder, ranks=1, was_handed_none=False)

    def report() -> None:
        watchers.report_begun()
        cursor.epoch, cursor.step = cursor.epoch + 1, 0

    StepHook(watchers, watchers, record.report_failure).install()
    return report


def probe(folder: Path) -> None:
    """Compare a training loop with the same one watched, in parts and whole."""
    parts = {
        "steps alone": Watch(state=False, inputs=False, files=False),
        "without state": Watch(state=False),
        "all, every 8": Watch(),
    }
    for job in ("tiny", "digits"):
        bare, _ = in_a_process(job, None, folder)
        print(f"probe, a step of {job}: bare{bare:28.0f} us")
        for name, watch in parts.items():
            watched, (own, state) = in_a_process(job, watch, folder)
            print(
                f"  {name:16} {watched:8.0f} us, +{watched - bare:.0f} us "
                f"(own account {own:.0f} us, state {state:.0f} us)"
            )


def forecasts(folder: Path) -> None:
    """Simulate 10,000 runs of thirty days of a 64-node job on three markets."""
    del folder
    base = change_question(
        sound_question(),
        {
            "job.nodes": 64,
            "job.min_nodes": None,
            "job.spare_nodes": 4,
            "job.steps": 10_000_000,
            "job.checkpoint_every_steps": 300,
            "settings.max_failures": -1,
        },
    )
    for name in ("calm-500h", "unannounced-16h", "bathtub-24h-cap"):
        question = change_question(base, {"market": find_preset(name).model_dump(mode="json")})
        call = partial(simulate, question, runs=FORECASTS, seed=0, horizon_s=30 * 86_400)
        seconds, outcomes = timed(call)
        changes = float(outcomes.restarts.mean())
        print(
            f"forecast on {name}: {FORECASTS} x 30 days, 64 nodes, "
            f"{changes:.0f} restarts each   {seconds:.1f} s"
        )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"memory of each process at its peak, torch and all: {peak:.0f} MiB")


def main() -> None:
    parts: list[Callable[[Path], None]] = [
        forecasts,
        exhaustive,
        fixed_costs,
        against_a_warm_cluster,
        probe,
    ]
    chosen = set(sys.argv[1:])
    for part in parts:
        if chosen and part.__name__ not in chosen:
            continue
        folder: AbstractContextManager[str] = tempfile.TemporaryDirectory()
        with folder as name:
            part(Path(name))


if __name__ == "__main__":
    main()
