"""The plan of a scenario: every choice that it leaves open, made from a seed."""

import random
import re
from os.path import normpath
from pathlib import Path

from chaos.model.fault_entry import FAULTS, REGISTERED, FaultEntry
from chaos.model.plan import Op, Plan, PlanBackend, Shape
from chaos.model.scenario import Job, Scenario
from chaos.plan.entries import drawn_entries, is_drawn, stated_steps

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
    place = Path(normpath(cwd / file))
    entries = drawn_entries(scenario, seed=seed)
    spares = max(1, sum(entry.fault.nodes_lost for entry in entries))
    usual = nodes_for(job.workers, cluster.cpus_per_node, spares=spares)
    drains = (entry.fault.needs_drain_s for entry in entries)
    nodes = cluster.nodes or (usual if job.facts.has_spare_nodes else 1)
    return Plan(
        scenario=scenario.scenario,
        slug=slug(file),
        file=str(place),
        seed=seed,
        cwd=normpath(cwd),
        job=_located(job, folder=place.parent),
        shape=Shape(
            nodes=nodes,
            cpus_per_node=cluster.cpus_per_node,
            keeps_gcs=any(entry.fault.needs_kept_gcs for entry in entries),
            drain_s=next((s for s in drains if s is not None), None),
            address=cluster.address,
            storage=cluster.storage,
            reclaim_by=cluster.reclaim_by,
            metadata=cluster.metadata,
            preempt_mode=cluster.preempt_mode,
        ),
        ops=_ops(entries, workers=job.workers, seed=seed),
        is_drawn=is_drawn(scenario),
        stated_steps=stated_steps(scenario),
        expect=scenario.expect,
        watch=scenario.watch,
        limits=scenario.limits,
        storage=scenario.storage,
        backend=backend if backend == "fork" else job.launcher,
    )


def nodes_for(workers: int, cpus_per_node: int, *, spares: int) -> int:
    """Return the nodes that hold all workers, and still do when the spares are lost.

    A node that is lost is not replaced before the run is over, except by `return_capacity`.
    """
    return -(-workers // cpus_per_node) + spares


def slug(file: Path) -> str:
    """Return the scenario file's name as the name of a folder."""
    name = _UNSAFE.sub("_", _SUFFIX.sub("", file.name)).strip("._-")
    return name[:_SLUG_MAX] or "scenario"


def _located(job: Job, *, folder: Path) -> Job:
    script = None if job.script is None else normpath(folder / job.script)
    inputs = tuple(normpath(folder / name) for name in job.inputs)
    then = {kind: normpath(folder / name) for kind, name in job.then.items()}
    return job.model_copy(update={"script": script, "inputs": inputs, "then": then})


def _ops(entries: tuple[FaultEntry, ...], *, workers: int, seed: int) -> tuple[Op, ...]:
    draws = random.Random(seed)  # noqa: S311  repeatable is what it must be
    ops = []
    for index, entry in enumerate(entries):
        # Drawn for every op, used or not, so that a rank given to one op changes no other's; from
        # random() alone, whose sequence Python promises never to change.
        drawn = int(draws.random() * workers)
        at = entry.at if entry.at.rank is not None else entry.at.model_copy(update={"rank": drawn})
        faults = {fault: getattr(entry, fault) for fault in FAULTS}
        package = REGISTERED.packages.get(entry.kind)
        ops.append(Op(index=index, at=at, package=package, **faults))
    return tuple(ops)
