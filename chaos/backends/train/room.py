"""Whether the nodes of a local cluster hold the workers that a job asks for."""

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.backends.train import compat
from chaos.model.plan import Plan
from chaos.plan.gpus import room


def refuse_what_does_not_fit(scaling: Any, plan: Plan, gpus: Sequence[str]) -> None:  # noqa: ANN401
    """Raise `ValueError` for workers that would wait for ever; `gpus`: those of this machine."""
    shape = plan.shape
    if shape.address is not None:
        return  # what its nodes have is Ray's to find
    wants = compat.resources_per_worker(scaling)
    unheld = [name for name, n in wants.items() if n and name not in ("CPU", "GPU", "memory")]
    if unheld:
        raise ValueError(
            f"a worker asks for {wants}; the nodes of a local cluster have no {unheld[0]}"
        )
    workers = scaling.max_workers
    per_node = int(shape.cpus_per_node // wants["CPU"]) if wants.get("CPU") else workers
    if per_node * shape.nodes < workers:
        raise ValueError(
            f"{workers} workers ask for {wants} each; {shape.nodes} nodes of "
            f"{shape.cpus_per_node} CPU cannot hold them. "
            "Set cluster.cpus_per_node or cluster.nodes"
        )
    if wants.get("GPU"):
        _refuse_too_few_gpus(wants, plan, gpus, workers=workers)


def _refuse_too_few_gpus(
    wants: Mapping[str, float], plan: Plan, gpus: Sequence[str], *, workers: int
) -> None:
    nodes = plan.shape.nodes
    held = room(gpus, nodes, each=wants["GPU"])
    if held < workers:
        has = f"{len(gpus)} GPU{'s' if len(gpus) != 1 else ''}"
        raise ValueError(
            f"{workers} workers ask for {wants} each; {nodes} nodes of this machine, which has "
            f"{has}, hold {held} of them. With the backend `fork` they train on the CPU; with "
            "--address, on a cluster that has the GPUs"
        )
    lost = sum(op.nodes_lost for op in plan.ops)
    back = sum(op.return_capacity.nodes for op in plan.ops if op.return_capacity is not None)
    spare = held - workers + back if len(gpus) > 1 else lost
    if lost > spare and plan.job.min_workers is None:
        raise ValueError(
            f"{lost} nodes are lost, and {spare} others have a GPU to take over: the job would "
            "wait for ever. Add return_capacity (the new nodes have the GPUs of those lost)"
        )
