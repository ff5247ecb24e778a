"""Rules of what a scenario can have under a launcher, which a policy puts together."""

from collections.abc import Callable
from typing import TypeAlias

from chaos.model.fault_entry import FaultEntry
from chaos.model.launcher_policy import LauncherPolicy
from chaos.model.scenario import Job, Scenario
from chaos.model.trigger import SAVE_MOMENTS, AtMoment, AtStart, AtState

#: Returns what a fault's place needs that a launcher does not have; None if it has all.
DescribeMissingPlace: TypeAlias = Callable[[object], str | None]

_NEEDS_RAY = "job.{} needs Ray Train, and job.launcher is {}"
_JOB_FIELD_PROBLEMS = {
    "train_loop": "job.launcher {1} starts a script: write job.script or job.module",
    "epoch_steps": "job.epoch_steps is for jobs without Ray: with Ray Train a report ends an epoch",
    "failure": "job.failure: {1} counts no restarts of a job",
    "then": "job.then is a script for sbatch: it goes with `launcher: slurm`",
    "array_task": "job.array_task is of a script for sbatch: it goes with `launcher: slurm`",
}
# Of a job that reports nothing: it evaluates its model, and saves files of its own.
_MOMENTS_WITHOUT_REPORTS = ("validating", *SAVE_MOMENTS)


def check_job_fields(policy: LauncherPolicy, job: Job) -> None:
    """Raise `ValueError` for a field that is set and that the launcher's jobs do not have."""
    fields = type(job).model_fields
    for name in policy.fields.missing_job:
        if getattr(job, name) != fields[name].default:
            own_problem = policy.fields.job_problems.get(name)
            problem = own_problem or _JOB_FIELD_PROBLEMS.get(name, _NEEDS_RAY)
            raise ValueError(problem.format(name, policy.name))


def check_agent_nodes(policy: LauncherPolicy, scenario: Scenario) -> None:
    """Raise `ValueError` if the launcher's agents cannot start as many workers on each node."""
    nodes = scenario.cluster.nodes or 1
    workers, min_workers, name = scenario.job.workers, scenario.job.min_workers, policy.name
    if nodes > 1 and scenario.job.restarts_by_command:
        raise ValueError("job.restart: command starts one node again: leave cluster.nodes")
    if workers % nodes:
        raise ValueError(
            f"each of {name}'s agents starts as many workers: {workers} are no multiple of "
            f"cluster.nodes ({nodes})"
        )
    if min_workers is not None and min_workers % (workers // nodes):
        raise ValueError(
            f"job.min_workers ({min_workers}) must be a multiple of the {workers // nodes} workers "
            f"that each of {name}'s agents starts: `cluster: {{nodes: N}}`"
        )


def check_cluster_fields(policy: LauncherPolicy, scenario: Scenario) -> None:
    """Raise `ValueError` for a field of `cluster` that the launcher does not have."""
    values = {name: getattr(scenario.cluster, name) for name in policy.fields.cluster}
    if scenario.cluster != scenario.cluster.model_construct(**values):
        names = " and ".join(f"`{name}`" for name in policy.fields.cluster) or "nothing"
        raise ValueError(f"of cluster, {policy.name} has {names}: leave the rest out")


def check_watch(policy: LauncherPolicy, scenario: Scenario) -> None:
    """Raise `ValueError` for what only Ray Train shows, or if no resume can show in files."""
    if scenario.expect.jit_checkpoint:
        problem = f"needs Ray Train, and job.launcher is {policy.name}"
        raise ValueError(f"expect.jit_checkpoint {problem}")
    if not scenario.watch.files:
        raise ValueError(
            f"with job.launcher {policy.name} a resume shows in files: leave watch.files"
        )


def check_faults(
    policy: LauncherPolicy, scenario: Scenario, describe_place: DescribeMissingPlace
) -> None:
    """Raise `ValueError` for a fault that the launcher's jobs cannot have."""
    has_one_node = not policy.nodes.has_spares and (scenario.cluster.nodes or 1) == 1
    for entry in scenario.faults:
        lack = _describe_lack(policy, entry, describe_place)
        if lack is not None:
            own_fault = entry.fault.own_file_fault
            suggestion = f"; for a file that the job saves itself, write {own_fault}"
            raise ValueError(
                f"{lack}, and job.launcher is {policy.name}{suggestion if own_fault else ''}"
            )
        is_returned_node = policy.nodes.returns_preempted and entry.fault.is_announced
        is_supported = entry.fault.family == "node" and (
            policy.replaces_lost_nodes or is_returned_node
        )
        if entry.fault.family in {"node", "capacity"} and has_one_node and not is_supported:
            hint = f"write `cluster: {{nodes: N}}`, one of {policy.name}'s agents for each"
            if "nodes" not in policy.fields.cluster:
                hint = f"with job.launcher {policy.name} there is one"
            raise ValueError(f"{entry.kind} needs several nodes: {hint}")


def _describe_lack(
    policy: LauncherPolicy, entry: FaultEntry, describe_place: DescribeMissingPlace
) -> str | None:
    """Return in words what a fault, or its place, needs and a launcher does not have; or None."""
    if entry.is_own_object_fault:
        return None
    need = policy.explain_missing(entry.fault.needs)
    if need is not None:
        subject = str(entry.fault) if entry.fault.family == "worker" else entry.kind
        return f"{subject} {need}"
    place = describe_place(entry.at)
    return None if place is None else f"{place} needs Ray Train"


def describe_missing_place(trigger: object) -> str | None:
    """Return in words a place that only a job of Ray Train's comes to; None for any other."""
    match trigger:
        case AtMoment() if trigger.moment not in _MOMENTS_WITHOUT_REPORTS:
            return f"moment: {trigger.moment}"
        case AtState():
            return f"state: {trigger.state}"
        case AtStart() if trigger.at_launch:
            return "at_launch"
        case _:
            return None
