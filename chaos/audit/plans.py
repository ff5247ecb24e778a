"""The plans of an audit: of a script on its own, and of each run with a fault."""

import re
from collections.abc import Sequence
from os.path import normpath
from pathlib import Path
from typing import Any, NamedTuple

from chaos.audit.job_profile import JobProfile
from chaos.audit.site_groups import FaultSite
from chaos.errors import RequestError, UsageError
from chaos.model.arguments import Arguments, build_command_line
from chaos.model.expect import Expect
from chaos.model.launcher import DEFAULT_LAUNCHER, LAUNCHER_FACTS, Launcher
from chaos.model.launcher_facts import Restart
from chaos.model.plan import Plan, PlanBackend, Shape
from chaos.model.scenario import FailureBudget, Job, Limits
from chaos.plan.make import build_slug
from chaos.run.modules import ModuleFile

_NEGATIVE = re.compile(r"-\.?\d")


def parse_args(words: Sequence[str]) -> Arguments:
    """Return `--name value` pairs and `--name` flags by name, if their words can be restored.

    Otherwise return the words as they are: positional arguments, short options and repeated
    options have no name of their own.
    """
    options: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if not _is_option(word):
            if not name:
                return tuple(words)
            options[name].append(word)
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name or name in options or _is_option(value):
            return tuple(words)
        options[name] = [value] if equals else []
    return {name: _parse_value(values) for name, values in options.items()}


def parse_launcher_args(launcher: Launcher, words: Sequence[str]) -> Arguments:
    """Return the same, but with a launcher that keeps their spelling only if that is restored."""
    args = parse_args(words)
    is_changed = [*build_command_line(args)] != [*words]
    return tuple(words) if is_changed and LAUNCHER_FACTS[launcher].script.keeps_spelling else args


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _NEGATIVE.match(word)


def _parse_value(values: list[str]) -> Any:  # noqa: ANN401 (what YAML can hold)
    if not values:
        return True
    parsed_values = [_parse_number(value) for value in values]
    return parsed_values[0] if len(parsed_values) == 1 else parsed_values


def _parse_number(text: str) -> int | float | str:
    """Return a number if Python would spell it the same way, otherwise the text."""
    for parse in (int, float):
        try:
            number = parse(text)
        except ValueError:
            continue
        if str(number) == text and abs(number) < 2**63:
            return number
    return text


class NodeRange(NamedTuple):
    """The fewest and the most nodes of a job that goes on with fewer."""

    min_nodes: int
    max_nodes: int


ONE_NODE = NodeRange(1, 1)
# Of a clean run, about which nothing is known yet; how long those with faults may take follows from
# the time that it took.
CLEAN_RUN_S = 600.0
# The length of an elastic job's `num_workers=(min, max)`.
RANGE = 2


def build_base_plan(
    script: Path | ModuleFile,
    words: Sequence[str],
    *,
    cwd: Path,
    seed: int,
    workers: int | None = None,
    fit: int = 1,
) -> Plan:
    """Return the plan of `python script words…` or `python -m module words…`, without faults.

    Without `workers`, their number is a guess; `set_script_workers` corrects it once a run
    has shown the script's own. Raises `UsageError` for a missing script, or for a command
    line that no scenario can hold.
    """
    file, module, _ = script if isinstance(script, ModuleFile) else ModuleFile(script)
    path = Path(normpath(cwd / file))
    if not path.is_file():
        raise UsageError("there is no such script", "Check the path.", location=str(file))
    count = workers or LAUNCHER_FACTS[DEFAULT_LAUNCHER].workers.default_count
    name = module or path.stem
    code: dict[str, Any] = {"module": module} if module else {"script": str(path)}
    return Plan(
        scenario=f"audit of {module or path.name}",
        slug=build_slug(Path(name)),
        file=str(path),
        seed=seed,
        cwd=normpath(cwd),
        backend="fork",
        job=Job(**code, args=parse_args(words), workers=count, fit=fit),
        shape=Shape(nodes=count + 1, cpus_per_node=1),
        ops=(),
        expect=Expect(),
        limits=Limits(run_s=CLEAN_RUN_S),
    )


def set_launcher(
    plan: Plan,
    launcher: Launcher,
    words: Sequence[str],
    *,
    backend: PlanBackend = "fork",
    epoch_steps: int | None = None,
    nodes: NodeRange = ONE_NODE,
) -> Plan:
    """Return the plan of a script that a launcher starts; of one that calls it itself, `plan`.

    `nodes`: the fewest and the most, each with an agent that has as many ranks. Raises `UsageError`
    if they cannot have as many ranks each.
    """
    if launcher == plan.job.launcher:
        return plan
    fewest_nodes, most_nodes = nodes
    workers = max(plan.job.workers, most_nodes)
    if workers % most_nodes:
        raise RequestError(
            f"each of {most_nodes} nodes has as many ranks, and {workers} are no multiple of that",
            "Give {workers} a multiple of the nodes.",
            field="nodes",
        )
    job_update = {
        "launcher": launcher,
        "args": parse_launcher_args(launcher, words),
        "epoch_steps": epoch_steps,
        "workers": workers,
        "min_workers": None if fewest_nodes == most_nodes else fewest_nodes * workers // most_nodes,
    }
    job = plan.job.model_copy(update=job_update)
    shape = Shape(nodes=most_nodes, cpus_per_node=LAUNCHER_FACTS[launcher].nodes.cpus)
    return plan.replace(job=job, backend=backend, shape=shape)


def set_restart(plan: Plan, restart: Restart | None, words: Sequence[str]) -> Plan:
    """Return the plan with who begins the job again, and with the arguments of later starts."""
    job_update = {"restart": restart, "restart_args": parse_launcher_args(plan.job.launcher, words)}
    job = plan.job.model_copy(update=job_update)
    return plan.replace(job=Job.model_validate(job.model_dump()))


def set_script_workers(plan: Plan, profile: JobProfile, *, keeps_count: bool = False) -> Plan:
    """Return the plan with as many workers as the script asks for, if that is known.

    `keeps_count`: with as many as the plan has; an elastic job still goes on with fewer.
    """
    fewest_workers, most_workers = _parse_worker_range(profile.find_setting("num_workers"))
    if keeps_count:
        fewest_workers, most_workers = (
            _parse_worker_range((fewest_workers, plan.job.workers))
            if fewest_workers is not None
            else (None, None)
        )
    if most_workers is None or (fewest_workers, most_workers) == (
        plan.job.min_workers,
        plan.job.workers,
    ):
        return plan
    job = plan.job.replace(workers=most_workers, min_workers=fewest_workers)
    if not plan.job.launcher_facts.nodes.has_spares:
        return plan.replace(job=job)
    shape = plan.shape.replace(nodes=most_workers + 1)
    return plan.replace(job=job, shape=shape)


def _parse_worker_range(setting: Any) -> tuple[int | None, int | None]:  # noqa: ANN401 (settings are of any type)
    """Return the fewest and the most workers: both `num_workers`, unless the job is elastic."""
    fewest_workers, most_workers = (
        setting if isinstance(setting, list | tuple) and len(setting) == RANGE else (None, setting)
    )
    if not _is_count(most_workers):
        return None, None
    return (
        fewest_workers if _is_count(fewest_workers) and fewest_workers < most_workers else None
    ), most_workers


def _is_count(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


# A run with faults may take so many times a clean one, and so much longer: a restart may train from
# the beginning, and each further fault of a chain once more.
RUN_TIMES, RUN_EXTRA_S = 10, 20.0
RECOVERY_ON_RAY_S = 30.0  # at most, on a busy machine: four times what `make bench` shows


def build_fault_plan(base: Plan, place: FaultSite, profile: JobProfile) -> Plan:
    """Return the plan of one place and its ops.

    Each kill ends one attempt. The end of a notice depends on the clock, and whether
    the loss of a loader's process is noticed on the batches that it was still to give. So
    the plan expects nothing about the time after these: the checks judge that.
    """
    attempts = 1 + len(place.ops) if place.ends_attempts else None
    # Each further restart takes at most a start and an epoch more.
    run_s = (RUN_TIMES - 1 + len(place.ops)) * profile.seconds + RUN_EXTRA_S
    facts = base.job.launcher_facts
    failure = choose_retry_budget(place, profile) if facts.retries.budgets else None
    run_s += (facts.times.meeting_s if profile.remote_ranks else facts.times.shutdown_s) * len(
        place.ops
    )
    return base.replace(
        scenario=f"{place.group}: {place.name}",
        job=base.job.replace(failure=failure),
        shape=_choose_shape(base, place),
        ops=place.ops,
        expect=base.expect.replace(attempts=attempts),
        limits=base.limits.replace(run_s=run_s),
    )


def move_to_ray(plan: Plan) -> Plan:
    """Return an audit's plan for a local Ray cluster, where a start and a restart take longer."""
    run_s = max(plan.limits.run_s, Limits().run_s) + RECOVERY_ON_RAY_S * len(plan.ops)
    limits = plan.limits.replace(run_s=run_s)
    update = {"backend": "ray", "confined": None, "follows_script": False, "limits": limits}
    return plan.model_copy(update=update)


def _choose_shape(base: Plan, place: FaultSite) -> Shape:
    """Return the nodes: without a spare if the job is to continue with fewer workers."""
    if place.group != "fewer workers after it" or not base.job.launcher_facts.nodes.has_spares:
        return base.shape
    return base.shape.replace(nodes=-(-base.job.workers // base.shape.cpus_per_node))


def choose_retry_budget(place: FaultSite, profile: JobProfile) -> FailureBudget:
    """Return enough retries for every op, or the job's own if these are more.

    A script that calls `fit()` again by itself keeps those that it has.
    """
    ops = place.ops if profile.most_faults is None else ()
    script_retries = (
        profile.find_setting("max_failures") if profile.retries is None else profile.retries
    )
    needed_count, notice_count = len(ops), sum(op.fault.is_announced for op in ops)
    return FailureBudget(
        max_failures=_choose_limit(script_retries, needed_count, unset=0),
        max_preemption_failures=_choose_limit(
            profile.find_setting("max_preemption_failures"), notice_count, unset=-1
        ),
    )


def use_script_retries(plan: Plan, profile: JobProfile) -> Plan:
    """Return the plan of a run with faults with the script's own `max_failures`, and any end."""
    assert plan.job.failure is not None
    failure_budget = plan.job.failure.replace(max_failures=profile.find_setting("max_failures"))
    expect = plan.expect.replace(attempts=None)
    job = plan.job.replace(failure=failure_budget)
    return plan.replace(job=job, expect=expect)


def _choose_limit(setting: object, needed_count: int, *, unset: int) -> int:
    script_limit = setting if isinstance(setting, int) else unset
    return script_limit if script_limit == -1 else max(script_limit, needed_count)
