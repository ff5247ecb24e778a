"""Imports of a worker process before Ray makes a train worker of it.

Ray calls `preimport` in every process of the job's workers, once it is connected
and before it gets any work, because the environment that `build_preimport_env` returns names it.
A process that was started beforehand then waits with its imports done. Any other
process imports exactly the modules that a train worker imports first, only earlier.
"""

import contextlib
import importlib
import math
import os
from typing import Any

from chaos.launch.raytrain import CALLBACK, compat
from chaos.launch.raytrain.trainer import is_torch_trainer

WANTED_ENV = "CHAOS_PRESTART_WORKERS"  # in the driver: the workers of its job are to be marked
MODULES_ENV = "CHAOS_PREIMPORT"
THREADS_ENV = "CHAOS_PREIMPORT_THREADS"
OMP_ENV = "OMP_NUM_THREADS"
HOOK = f"{__name__}.preimport"
CALLBACK_MODULE = CALLBACK.rpartition(".")[0]
TRAINER_MODULES = ("ray.train", CALLBACK_MODULE)
TORCH_MODULES = ("ray.train.torch", "torch._dynamo", CALLBACK_MODULE)


def build_preimport_env(trainer: Any) -> dict[str, str]:  # a trainer of Ray Train
    """Return the environment of workers that are to import beforehand; empty if they are not.

    They are not if the job has a set-up function of its own: Ray calls only one.
    """
    if WANTED_ENV not in os.environ or compat.has_setup_hook(trainer.run_config):
        return {}
    modules = TORCH_MODULES if is_torch_trainer(trainer) else TRAINER_MODULES
    cpus = compat.resources_per_worker(trainer.scaling_config).get("CPU", 1)
    return {
        compat.setup_hook_env(): HOOK,
        MODULES_ENV: ",".join(modules),
        THREADS_ENV: str(max(math.floor(cpus), 1)),
    }


def preimport() -> None:
    """Import the modules that the environment names; an error is left for the job to meet.

    Ray sets `OMP_NUM_THREADS` while a worker works, and libraries read it as they are
    loaded. So it is set here to the same value, and unset afterwards: a sum over another
    number of threads would differ.
    """
    modules = os.environ.pop(MODULES_ENV, "")
    threads = os.environ.pop(THREADS_ENV, "1")
    is_unset = OMP_ENV not in os.environ
    if is_unset:
        os.environ[OMP_ENV] = threads
    try:
        for module in filter(None, modules.split(",")):
            with contextlib.suppress(Exception):
                importlib.import_module(module)
    finally:
        if is_unset:
            del os.environ[OMP_ENV]
