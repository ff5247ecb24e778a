"""The environment that processes get of every launcher."""

import os
from collections.abc import Mapping
from pathlib import Path

from chaos.model.launcher import LAUNCHER_FACTS
from chaos.model.plan import Plan
from chaos.probe.address import RunAddress
from chaos.registry import LAUNCHER_ENV

SLURM_ENV = "CHAOS_IN_SLURM"  # of processes whose node and attempt Slurm tells
NODE_ENV = "CHAOS_NODE"  # of a process that is on a node: the node's name
FIRST_ARGS_ENV = "CHAOS_FIRST_ARGS"  # set: a restart has the arguments of the first start
START_ENV = "CHAOS_START"  # of a driver: the number of this start of the script, from 0

# Accelerate's own launcher sets it. Without it, each rank of a machine without an accelerator takes
# itself for the only process (1.15), and trains alone.
ON_THE_CPU = {"ACCELERATE_USE_CPU": "true"}

_DEFAULTS = {"GLOO_SOCKET_IFNAME": "lo", "PYTHONUNBUFFERED": "1"}

# The hash seed of all processes of a run, so that runs repeat; on a cluster each process has
# another one. It decides the order in which a set of strings is iterated; a run of the other one
# shows whether the job depends on that.
HASH_SEED, OTHER_HASH_SEED = "0", "1"


def command_env(
    plan: Plan, address: RunAddress, *, hash_seed: str, defaults: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of a command and its workers, the user's own settings first."""
    return {
        **_DEFAULTS,
        **defaults,
        **({} if sees_gpu(os.environ) else ON_THE_CPU),
        "PYTHONHASHSEED": hash_seed,
        **os.environ,
        **address.build_variables(),
        **_build_launcher_variable(plan),
        **plan.job.env,
    }


def _build_launcher_variable(plan: Plan) -> dict[str, str]:
    """Return the variable by which processes of a job know a launcher of another package."""
    launcher = plan.job.launcher
    return {LAUNCHER_ENV: launcher} if LAUNCHER_FACTS.is_foreign(launcher) else {}


def sees_gpu(env: Mapping[str, str]) -> bool:
    """Return whether the workers of a job with this environment have a GPU."""
    hidden = (env.get(name) for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"))
    return any(Path("/dev").glob("nvidia[0-9]*")) and not {"", "-1"}.intersection(hidden)


def explain_gpu_refusal(env: Mapping[str, str]) -> str | None:
    """Return why workers with this environment cannot be forked, if they have a GPU."""
    return "a GPU is visible, and forked workers are for the CPU" if sees_gpu(env) else None


def find_argument_start() -> int:
    """Return the number of the start whose arguments this one has."""
    return 0 if FIRST_ARGS_ENV in os.environ else current_start()


def current_start() -> int:
    """Return the number of the start of the script that this process belongs to, from 0."""
    return int(os.environ.get(START_ENV, "0"))


def apply_slurm_env() -> bool:
    """Take a task's node, and the number of the job's start, from Slurm; return if it says them."""
    env = os.environ
    if SLURM_ENV not in env or "SLURMD_NODENAME" not in env:
        return False
    env[NODE_ENV] = env["SLURMD_NODENAME"]
    env[START_ENV] = env.get("SLURM_RESTART_COUNT", "0")
    return True


def build_journal_name(name: str) -> str:
    """Return the name of a driver's journal: each start of the script has one of its own."""
    return f"{name}-{current_start()}" if current_start() else name
