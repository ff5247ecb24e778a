"""`chaos from-trace`: a spot trace in fast motion, as a scenario that `chaos run` executes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from chaos.audit.job_profile import JobProfile, job_profile
from chaos.audit.plans import with_own_workers
from chaos.cli.options import REPORTS, Reports, Scale, Seed, Words
from chaos.cli.streams import write_document
from chaos.errors import UsageError
from chaos.harness import Harness
from chaos.launch.open import open_backend
from chaos.model.plan import Plan
from chaos.model.scenario import FailureBudget, Limits
from chaos.preflight.calibration import plan_without_faults
from chaos.preflight.compression import LOSSES, FollowedNodes, JobPace, TraceWalk, walked
from chaos.preflight.load import step_s
from chaos.preflight.market import TraceReading
from chaos.preflight.trace import Trace
from chaos.preflight.trace_columns import Unit
from chaos.preflight.trace_files import read_trace
from chaos.report.screen import screen
from chaos.run.clock import SystemClock
from chaos.scenario_file.text import scenario_text
from chaos.words import plural

# Added to a run's time limit for each fault: a start on Ray takes this long on a slow machine.
OP_S = 30.0

TraceFile = Annotated[
    Path,
    typer.Argument(
        metavar="TRACE",
        help="Spot availability trace (Bamboo, Parcae or SkyPilot format), or a platform's log.",
    ),
]
Subject = Annotated[
    Path, typer.Argument(metavar="SCRIPT", help="A script, or a scenario whose job is used.")
]
Spares = Annotated[
    int, typer.Option("--spares", min=0, metavar="N", help="Nodes beyond those of the workers.")
]
StepTime = Annotated[
    float | None,
    typer.Option("--step-s", metavar="S", help="Seconds per step. Default: measured."),
]


TraceNodes = Annotated[
    TraceReading,
    typer.Option(
        "--trace-nodes",
        help="How the trace's nodes are read. pool: some of them are followed, there or not, and "
        "the job waits for its own. market: the job holds as many as it wants of those that are "
        "up, and others replace one it loses.",
    ),
]


TraceHeld = Annotated[
    int | None,
    typer.Option(
        "--trace-held",
        min=1,
        metavar="N",
        help="How many nodes there were, where TRACE is a platform's log of those that were lost.",
    ),
]


TraceUnit = Annotated[
    Unit | None,
    typer.Option("--trace-unit", help="Of plain times in columns, where no heading says it."),
]


def from_trace(  # noqa: PLR0913 - one parameter per option
    trace: TraceFile,
    subject: Subject,
    arguments: Words = None,
    *,
    scale: Scale = None,
    seed: Seed = 0,
    spares: Spares = 1,
    trace_nodes: TraceNodes = "pool",
    trace_held: TraceHeld = None,
    trace_unit: TraceUnit = None,
    own_step_s: StepTime = None,
    reports: Reports = REPORTS,
) -> None:
    """Write a scenario with the node losses and returns of a spot trace, in fast motion.

    Two fault-free runs on forked workers measure the job's steps.

    Example: chaos from-trace p3.csv train.py --seed 7 -- --epochs 12 > p3.chaos.yaml
    """
    read, console = read_trace(trace, trace_held, trace_unit), screen(stderr=True)
    if not read.drops:
        raise UsageError("no node is lost in it", "There is nothing to replay.", place=read.name)
    if own_step_s is not None and own_step_s <= 0:
        raise UsageError(f"--step-s must be above 0, got {own_step_s:g}")
    plan, pace = _paced(subject, arguments or (), reports, console, own_step_s)
    factor = scale or default_scale(read, pace)
    pool = pace.workers + spares
    start, walk = walked(read, pace, pool=pool, seed=seed, read=trace_nodes, scale=factor)
    replayed = _replayed(plan, walk, start, title=f"{trace.name} in fast motion, seed {seed}")
    words = _comment(read, walk, scale=factor, since_s=start.since_s)
    words.insert(1, _read(read, pool, trace_nodes))
    waits = {} if walk.waited_s < 1 else {"recovery_s": {"max": round(120 + walk.waited_s)}}
    write_document(scenario_text(replayed, folder=Path.cwd(), comment=words, expect=waits))


def _paced(
    subject: Path, words: Sequence[str], reports: Path, console: Console, own_step_s: float | None
) -> tuple[Plan, JobPace]:
    """Return the plan of the job and its pace, by a run without faults."""
    with open_backend("fork", console) as backend:
        harness = Harness(reports, console, Path.cwd(), backend, SystemClock())
        run = harness.run_plan(plan_without_faults(subject, words, "fork"))
    seen = job_profile(run.history)
    plan = with_own_workers(run.plan, seen)
    measured_s = step_s([(run.history, attempt) for attempt in run.analysis.run.attempts])
    return plan, pace_of(plan, seen, own_step_s or measured_s)


def pace_of(plan: Plan, seen: JobProfile, seconds: float) -> JobPace:
    """Return the pace of a job, by its clean run."""
    epochs = sorted({epoch for epoch, _ in seen.steps if epoch in seen.epochs})
    steps = tuple(min(n for (e, _), n in seen.steps.items() if e == epoch) for epoch in epochs)
    return JobPace(plan.job.workers, plan.job.min_workers, steps, frozenset(seen.saved), seconds)


def default_scale(trace: Trace, pace: JobPace) -> float:
    """Return the factor by which the job's own nodes are lost a few times."""
    every_s = trace.node_h * 3600 / sum(trace.drops) / pace.workers
    return max(1.0, every_s * 2 * LOSSES / (sum(pace.steps) * pace.step_s))


def _replayed(plan: Plan, walk: TraceWalk, start: FollowedNodes, *, title: str) -> Plan:
    run_s = Limits().run_s + OP_S * len(walk.ops) + round(4 * walk.waited_s)
    failure = FailureBudget(max_failures=max(1, walk.losses))
    return plan.model_copy(
        update={
            "scenario": title,
            "ops": tuple(walk.ops),
            "job": plan.job.model_copy(update={"failure": failure}),
            "shape": plan.shape.model_copy(update={"nodes": start.up, "cpus_per_node": 1}),
            "limits": plan.limits.model_copy(update={"run_s": run_s}),
        }
    )


def _read(trace: Trace, pool: int, how: TraceReading) -> str:
    """Return how the nodes of the trace are read as the job's."""
    most, held = plural(trace.peak, "node"), "that are up, and others replace one it loses"
    of = f"up to {pool} of those {held}" if how == "market" else f"{pool} of them, there or not"
    return f"The trace has {most} at most; the job holds {of} (--trace-nodes {how})."


def _comment(trace: Trace, walk: TraceWalk, *, scale: float, since_s: float) -> list[str]:
    lines = [
        (
            f"{trace.name} ({trace.format}, {trace.kind}), from {since_s / 3600:.2f} h on, "
            f"{scale:,.0f} times as fast, a step in {walk.pace.step_s * 1000:.3g} ms: "
            f"{walk.losses} losses that take workers."
        ),
        "Save it where this command was run: the paths are relative to that folder.",
    ]
    if walk.moved:
        lines.append(f"{walk.moved} fault(s) stand later than in the trace, behind an earlier one.")
    return [*lines, *(f"{repair}." for repair in trace.repairs)]
