"""The environment that processes get of every launcher."""

import os

START_ENV = "CHAOS_START"  # of a driver: the number of this start of the script, from 0

# Accelerate's own launcher sets it. Without it, each rank of a machine without an accelerator takes
# itself for the only process (1.15), and trains alone.
ON_THE_CPU = {"ACCELERATE_USE_CPU": "true"}

# The hash seed of all processes of a run, so that runs repeat; on a cluster each process has
# another one. It decides the order in which a set of strings is iterated; a run of the other one
# shows whether the job depends on that.
HASH_SEED, OTHER_HASH_SEED = "0", "1"


def this_start() -> int:
    """Return the number of the start of the script that this process belongs to, from 0."""
    return int(os.environ.get(START_ENV, "0"))


def named_by_start(name: str) -> str:
    """Return the name of a driver's journal: each start of the script has one of its own."""
    return f"{name}-{this_start()}" if this_start() else name
