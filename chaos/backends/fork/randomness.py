"""The random generators of a forked process."""

import random


def draw_fresh_randomness() -> None:
    """Seed all generators as in a new process: a job without a seed must not repeat itself."""
    import numpy as np
    import torch

    random.seed()
    np.random.seed()  # noqa: NPY002 - the global generator is the one that jobs use
    torch.default_generator.seed()  # torch 2.13: from the machine, as in a new process
