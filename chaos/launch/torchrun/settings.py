"""The nodes of a run by their names, and the environment of its processes."""

from chaos.launch.environment import command_env
from chaos.model.plan import Plan
from chaos.probe.address import RunAddress

ATTEMPT_ENV = "CHAOS_ATTEMPT"  # of workers: torchrun's restart count is each agent's own
FIRST_ENV = "CHAOS_FIRST_ATTEMPT"  # of an agent: the number that its first round has
_DEFAULTS = {
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


def build_environment(plan: Plan, address: RunAddress, *, hash_seed: str) -> dict[str, str]:
    """Return the environment of torchrun and its workers."""
    return command_env(plan, address, hash_seed=hash_seed, defaults=_DEFAULTS)
