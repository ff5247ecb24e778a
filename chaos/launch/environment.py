"""The environment that processes on this host get of every launcher."""

# Accelerate's own launcher sets it. Without it, each rank of a machine without an accelerator takes
# itself for the only process (1.15), and trains alone.
ON_THE_CPU = {"ACCELERATE_USE_CPU": "true"}

# The hash seed of all processes of a run, so that runs repeat; on a cluster each process has
# another one. It decides the order in which a set of strings is iterated; a run of the other one
# shows whether the job depends on that.
HASH_SEED, OTHER_HASH_SEED = "0", "1"
