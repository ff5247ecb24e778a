"""The plan of a case, and of each strike at it."""

from pathlib import Path

from chaos.model.plan import BackendName, Plan, Shape
from chaos.model.scenario import Expect, FailureBudget, Job, Limits
from chaos.plan.make import nodes_for
from chaos.selftest.draw import WORKERS, Case, Ops

# As many as any strike needs; a job that fails at every start has spent them soon.
MAX_FAILURES = 2


def plan_of(case: Case, ops: Ops, *, backend: BackendName, cwd: Path) -> Plan:
    """Give the plan of one strike; of a clean run where there are no ops."""
    exhibit = case.exhibit
    spares = max(1, sum(op.fault.nodes_lost for op in ops))
    return Plan(
        scenario=f"{exhibit.id} {exhibit.title}",
        slug=exhibit.module,
        file=str(cwd / f"{exhibit.module}.chaos.yaml"),
        seed=case.variant.seed,
        backend=backend,
        cwd=str(cwd),
        job=Job(
            train_loop=exhibit.train_loop,
            args=case.variant.model_dump(),
            workers=WORKERS,
            failure=FailureBudget(max_failures=MAX_FAILURES),
        ),
        shape=Shape(nodes=nodes_for(WORKERS, 1, spares=spares), cpus_per_node=1),
        ops=ops,
        expect=Expect(),
        limits=Limits(run_s=exhibit.run_s if backend == "fork" else Limits().run_s),
    )
