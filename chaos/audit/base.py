"""The plan of a script on its own: what an audit starts from."""

from collections.abc import Sequence
from os.path import normpath
from pathlib import Path
from typing import Any

from chaos.audit.arguments import args_of
from chaos.audit.extent import Extent
from chaos.errors import UsageError
from chaos.model.plan import Plan, Shape
from chaos.model.scenario import Expect, Job, Limits
from chaos.plan.make import slug

WORKERS_GUESSED = 2
CLEAN_RUN_S = 600.0
RANGE = 2


def base_plan(
    script: Path,
    words: Sequence[str],
    *,
    cwd: Path,
    seed: int,
    workers: int | None = None,
    fit: int = 1,
) -> Plan:
    """Give the plan of `python script words…` with nothing done to it.

    Without `workers` it is a guess; `with_own_workers` corrects it once a run
    has shown what the script asks for. Raises `UsageError` for a script that is
    not there, or a command line that no scenario can hold.
    """
    path = Path(normpath(cwd / script))
    if not path.is_file():
        raise UsageError("there is no such script", "Check the path.", place=str(script))
    count = workers or WORKERS_GUESSED
    name = path.stem
    return Plan(
        scenario=f"audit of {path.name}",
        slug=slug(Path(name)),
        file=str(path),
        seed=seed,
        cwd=normpath(cwd),
        job=Job(script=str(path), args=args_of(words), workers=count, fit=fit),
        shape=Shape(nodes=count + 1, cpus_per_node=1),
        ops=(),
        expect=Expect(),
        limits=Limits(run_s=CLEAN_RUN_S),
    )


def with_own_workers(plan: Plan, extent: Extent) -> Plan:
    """Give the plan with as many workers as the script itself asks for, if that is known."""
    least, most = _range(extent.own("num_workers"))
    if most is None or (least, most) == (plan.job.min_workers, plan.job.workers):
        return plan
    job = plan.job.model_copy(update={"workers": most, "min_workers": least})
    shape = plan.shape.model_copy(update={"nodes": most + 1})
    return plan.model_copy(update={"job": job, "shape": shape})


def _range(own: Any) -> tuple[int | None, int | None]:  # noqa: ANN401 (settings are of any type)
    """Read `num_workers`: a number, or for an elastic job the fewest and the most."""
    least, most = own if isinstance(own, list | tuple) and len(own) == RANGE else (None, own)
    if not _is_count(most):
        return None, None
    return (least if _is_count(least) and least < most else None), most


def _is_count(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
