"""`chaos from-trace`: a spot trace in fast motion, as a scenario that `chaos run` executes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from chaos.audit.job_profile import JobProfile, measure_job
from chaos.audit.plans import set_script_workers
from chaos.cli.options import REPORTS, Reports, Scale, ScriptArguments, Seed
from chaos.cli.streams import write_document
from chaos.errors import UsageError
from chaos.extensions.preflight.calibration import plan_without_faults
from chaos.extensions.preflight.compression import (
    LOSSES,
    FollowedNodes,
    JobPace,
    TraceWalk,
    find_walk,
)
from chaos.extensions.preflight.load import measure_step_s
from chaos.extensions.preflight.market import TraceReading
from chaos.extensions.preflight.trace import Trace
from chaos.extensions.preflight.trace_columns import Unit
from chaos.extensions.preflight.trace_files import load_trace
from chaos.harness import Harness
from chaos.launch.backends import open_backend
from chaos.model.plan import Plan
from chaos.model.scenario import FailureBudget, Limits
from chaos.report.screen import ConsoleAnnouncer, build_console
from chaos.run.clock import SystemClock
from chaos.scenario_file.text import render_scenario
from chaos.wording import plural

HELP_PANEL = "Cluster configuration"
HELP_LINE = "Write a scenario from a spot trace."

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
        help="How the trace's nodes are read. pool: the job waits for its own. "
        "market: it holds as many as it wants of those that are up.",
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


def convert_trace(  # noqa: PLR0913 - one parameter per option
    trace: TraceFile,
    subject: Subject,
    arguments: ScriptArguments = None,
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
    spot_trace, console = load_trace(trace, trace_held, trace_unit), build_console(stderr=True)
    if not spot_trace.drops:
        raise UsageError(
            "no node is lost in it", "There is nothing to replay.", location=spot_trace.name
        )
    if own_step_s is not None and own_step_s <= 0:
        raise UsageError(f"--step-s must be above 0, got {own_step_s:g}")
    plan, pace = _measure_pace(subject, arguments or (), reports, console, own_step_s)
    factor = scale or compute_default_scale(spot_trace, pace)
    pool = pace.workers + spares
    start, walk = find_walk(spot_trace, pace, pool=pool, seed=seed, read=trace_nodes, scale=factor)
    replay_plan = _build_replay_plan(
        plan, walk, start, title=f"{trace.name} in fast motion, seed {seed}"
    )
    comment_lines = _build_comment(spot_trace, walk, scale=factor, since_s=start.start_s)
    comment_lines.insert(1, _describe_reading(spot_trace, pool, trace_nodes))
    expected_values = (
        {} if walk.waited_s < 1 else {"recovery_s": {"max": round(120 + walk.waited_s)}}
    )
    write_document(
        render_scenario(
            replay_plan, folder=Path.cwd(), comment=comment_lines, expect=expected_values
        )
    )


def _measure_pace(
    subject: Path, words: Sequence[str], reports: Path, console: Console, own_step_s: float | None
) -> tuple[Plan, JobPace]:
    """Return the plan of the job and its pace, by a run without faults."""
    with open_backend("fork", ConsoleAnnouncer(console)) as backend:
        harness = Harness(reports, console, Path.cwd(), backend, SystemClock())
        run = harness.run_plan(plan_without_faults(subject, words, "fork"))
    profile = measure_job(run.history)
    plan = set_script_workers(run.plan, profile)
    measured_s = measure_step_s([(run.history, attempt) for attempt in run.analysis.run.attempts])
    return plan, build_pace(plan, profile, own_step_s or measured_s)


def build_pace(plan: Plan, profile: JobProfile, seconds: float) -> JobPace:
    """Return the pace of a job, by its clean run."""
    epochs = sorted({epoch for epoch, _ in profile.steps if epoch in profile.epochs})
    steps = tuple(
        min(
            step_count
            for (step_epoch, _), step_count in profile.steps.items()
            if step_epoch == epoch
        )
        for epoch in epochs
    )
    return JobPace(
        plan.job.workers, plan.job.min_workers, steps, frozenset(profile.saved_epochs), seconds
    )


def compute_default_scale(trace: Trace, pace: JobPace) -> float:
    """Return the factor by which the job's own nodes are lost a few times."""
    loss_interval_s = trace.node_h * 3600 / sum(trace.drops) / pace.workers
    return max(1.0, loss_interval_s * 2 * LOSSES / (sum(pace.steps) * pace.step_s))


def _build_replay_plan(plan: Plan, walk: TraceWalk, start: FollowedNodes, *, title: str) -> Plan:
    run_s = Limits().run_s + OP_S * len(walk.ops) + round(4 * walk.waited_s)
    failure = FailureBudget(max_failures=max(1, walk.losses))
    return plan.replace(
        scenario=title,
        ops=tuple(walk.ops),
        job=plan.job.replace(failure=failure),
        shape=plan.shape.replace(nodes=start.up, cpus_per_node=1),
        limits=plan.limits.replace(run_s=run_s),
    )


def _describe_reading(trace: Trace, pool: int, reading: TraceReading) -> str:
    """Return how the nodes of the trace are read as the job's."""
    peak_text, replacement_text = (
        plural(trace.peak, "node"),
        "that are up, and others replace one it loses",
    )
    nodes_text = (
        f"up to {pool} of those {replacement_text}"
        if reading == "market"
        else f"{pool} of them, there or not"
    )
    return (
        f"The trace has {peak_text} at most; the job holds {nodes_text} (--trace-nodes {reading})."
    )


def _build_comment(trace: Trace, walk: TraceWalk, *, scale: float, since_s: float) -> list[str]:
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
