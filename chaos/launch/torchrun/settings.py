"""The nodes of a run by their names, and the environment of its processes."""

import os
from collections.abc import Mapping
from pathlib import Path

from chaos.launch import node_disk
from chaos.launch.environment import ON_THE_CPU
from chaos.model.plan import Plan
from chaos.probe.address import RunAddress
from chaos.probe.written import Confines

NODE_ENV = "CHAOS_NODE"  # of an agent and its workers: the name of their node
ATTEMPT_ENV = "CHAOS_ATTEMPT"  # of workers: torchrun's restart count is each agent's own
FIRST_ENV = "CHAOS_FIRST_ATTEMPT"  # of an agent: the number that its first round has
_DEFAULTS = {
    "GLOO_SOCKET_IFNAME": "lo",
    "PYTHONUNBUFFERED": "1",
    # torch 2.13: all rounds share one store, in which a new worker may read the address of a dead
    # one, and its round fails (pytorch#135712). With torch's own switch each round has a store.
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
}


def node_name(number: int) -> str:
    """Return the name of a node by its number, in the order in which the nodes were started."""
    return f"node-{number}"


def node_number(name: str) -> int:
    """Return the number of a node by its name."""
    return int(name.rpartition("-")[2])


def environment_of(plan: Plan, address: RunAddress, *, hash_seed: str) -> dict[str, str]:
    """Return the environment of torchrun and its workers, the user's own settings first."""
    return {
        **_DEFAULTS,
        **({} if sees_gpu(os.environ) else ON_THE_CPU),
        "PYTHONHASHSEED": hash_seed,
        **os.environ,
        **address.as_env(),
        **plan.job.env,
    }


def sees_gpu(env: Mapping[str, str]) -> bool:
    """Return whether the workers of a job with this environment have a GPU."""
    hidden = (env.get(name) for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"))
    return any(Path("/dev").glob("nvidia[0-9]*")) and not {"", "-1"}.intersection(hidden)


def confines_of(plan: Plan, run: Path) -> Confines:
    """Return the confines of a run's processes: no run may harm, or find, files of another.

    Outside of an audit they are those of all runs in one folder of reports.
    """
    return node_disk.confines_of(plan) or Confines(run.parents[1])
