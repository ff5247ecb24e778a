"""The environment of a zygote."""

import os

from chaos.launch.environment import HASH_SEED, ON_THE_CPU
from chaos.launch.raytrain import CALLBACK
from chaos.launch.raytrain.compat import CALLBACKS_ENV
from chaos.model.plan import Plan
from chaos.registry import EXTENSIONS_ENV, EXTENSIONS_OFF

# Read by Ray Train. Polls are frequent, because all processes are on this machine.
TRAIN_ENV = {
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.01",
    "RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S": "0.05",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "5",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_ENABLE_CONTROLLER_STRUCTURED_LOGGING": "0",
    "RAY_TRAIN_ENABLE_WORKER_STRUCTURED_LOGGING": "0",
    "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",
    "TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S": "1",
    "OMP_NUM_THREADS": "1",  # as for a worker of one CPU: its resources change no sum
    "GLOO_SOCKET_IFNAME": "lo",
    **ON_THE_CPU,
}


def zygote_env(plan: Plan, hash_seed: str = HASH_SEED) -> dict[str, str]:
    """Return the environment of a plan's zygote, the user's own settings first."""
    user_env = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    callbacks = [user_env.get(CALLBACKS_ENV, ""), CALLBACK]
    return {
        **TRAIN_ENV,
        "PYTHONHASHSEED": hash_seed,
        **user_env,
        "CUDA_VISIBLE_DEVICES": "",  # training is on the CPU, and torch reports no GPU
        "PYTHONUNBUFFERED": "1",
        EXTENSIONS_ENV: EXTENSIONS_OFF,
        CALLBACKS_ENV: ",".join(name for name in callbacks if name),
        **plan.job.env,
    }
