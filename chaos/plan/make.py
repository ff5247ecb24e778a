"""The plan of a scenario: every choice that it leaves open, made from a seed."""

import random
import re
from os.path import normpath
from pathlib import Path

from chaos.model.fault_entry import FAULTS, REGISTERED, FaultEntry
from chaos.model.plan import Op, Plan, PlanBackend, Shape
from chaos.model.scenario import Job, Scenario
from chaos.plan.entries import draw_entries, find_stated_epoch_steps, is_drawn

_SUFFIX = re.compile(r"(\.chaos)?\.ya?ml$")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_SLUG_MAX = 80


def make_plan(
    scenario: Scenario, *, file: Path, seed: int, cwd: Path, backend: PlanBackend = "ray"
) -> Plan:
    """Return the one plan that this scenario has with this seed.

    `file` is the scenario's own, to which its paths are relative; `cwd`,
    absolute, is where the job runs and what `file` may be relative to.
    """
    assert cwd.is_absolute()
    assert seed >= 0  # random.Random takes -1 for 1: two seeds would be one plan
    job, cluster = scenario.job, scenario.cluster
    scenario_path = Path(normpath(cwd / file))
    entries = draw_entries(scenario, seed=seed)
    spares = max(1, sum(entry.fault.lost_node_count for entry in entries))
    usual_nodes = count_nodes(job.workers, cluster.cpus_per_node, spares=spares)
    drain_times = (entry.fault.needs_drain_s for entry in entries)
    nodes = cluster.nodes or (usual_nodes if job.launcher_facts.nodes.has_spares else 1)
    return Plan(
        scenario=scenario.scenario,
        slug=build_slug(file),
        file=str(scenario_path),
        seed=seed,
        cwd=normpath(cwd),
        job=_resolve_paths(job, folder=scenario_path.parent),
        shape=Shape(
            nodes=nodes,
            cpus_per_node=cluster.cpus_per_node,
            keeps_gcs=any(entry.fault.needs_durable_gcs for entry in entries),
            drain_s=next((s for s in drain_times if s is not None), None),
            address=cluster.address,
            storage=cluster.storage,
            reclaim_by=cluster.reclaim_by,
            metadata=cluster.metadata,
            preempt_mode=cluster.preempt_mode,
        ),
        ops=_build_ops(entries, workers=job.workers, seed=seed),
        is_drawn=is_drawn(scenario),
        stated_steps=find_stated_epoch_steps(scenario),
        expect=scenario.expect,
        watch=scenario.watch,
        limits=scenario.limits,
        storage=scenario.storage,
        backend=backend if backend == "fork" else job.launcher,
    )


def count_nodes(workers: int, cpus_per_node: int, *, spares: int) -> int:
    """Return the nodes that hold all workers, and still do when the spares are lost.

    A node that is lost is not replaced before the run is over, except by `return_capacity`.
    """
    return -(-workers // cpus_per_node) + spares


def build_slug(file: Path) -> str:
    """Return the scenario file's name as the name of a folder."""
    name = _UNSAFE.sub("_", _SUFFIX.sub("", file.name)).strip("._-")
    return name[:_SLUG_MAX] or "scenario"


def _resolve_paths(job: Job, *, folder: Path) -> Job:
    script = None if job.script is None else normpath(folder / job.script)
    inputs = tuple(normpath(folder / name) for name in job.inputs)
    then = {kind: normpath(folder / name) for kind, name in job.then.items()}
    return job.replace(script=script, inputs=inputs, then=then)


def _build_ops(entries: tuple[FaultEntry, ...], *, workers: int, seed: int) -> tuple[Op, ...]:
    draws = random.Random(seed)  # noqa: S311  repeatable is what it must be
    ops = []
    for index, entry in enumerate(entries):
        # Drawn for every op, used or not, so that a rank given to one op changes no other's; from
        # random() alone, whose sequence Python promises never to change.
        drawn_rank = int(draws.random() * workers)
        trigger = entry.at if entry.at.rank is not None else entry.at.replace(rank=drawn_rank)
        faults = {fault: getattr(entry, fault) for fault in FAULTS}
        package = REGISTERED.packages.get(entry.kind)
        ops.append(Op(index=index, at=trigger, package=package, **faults))
    return tuple(ops)
