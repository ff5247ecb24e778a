"""What a watched job looks like from inside: its state, inputs and files, at every place.

All of it follows from the place alone, as in a job that restores everything.
"""

import random
from functools import cache
from hashlib import blake2b

from chaos.model import event as ev

GENERATORS = ("rng.torch", "rng.numpy")


def digest(*parts: object) -> str:
    return blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def components(rank: int, done: int, epoch: int, *, drawn: bool) -> tuple[ev.Component, ...]:
    """Return the state after `done` steps; `drawn`: the next forward has drawn its numbers."""
    empty = done == 0
    momentum = ev.Component(
        name="optimizer.momentum_buffer",
        digest="" if empty else digest("momentum", done),
        size=None if empty else done / 7,
        count=0 if empty else 2,
    )
    return (
        ev.Component(name="model", digest=digest("model", done), size=1 + done / 100, count=4),
        momentum,
        ev.Component(name="optimizer.lr", digest=digest("lr", epoch), size=0.1 * 0.9**epoch),
        ev.Component(name="schedule", digest=digest("schedule", epoch), size=float(epoch)),
        ev.Component(name="ema", digest=digest("ema", done), size=1 + done / 200, count=4),
        ev.Component(name="rng.torch", digest=digest("torch", rank, done, drawn)),
        ev.Component(name="rng.numpy", digest=digest("numpy", rank, 0)),
    )


@cache
def shuffled(epoch: int, count: int) -> tuple[str, ...]:
    """Return a data set's samples in the order of one epoch, eight digits each."""
    found = [f"{number:08x}" for number in range(count)]
    random.Random(epoch).shuffle(found)
    return tuple(found)


def inputs(epoch: int, step: int, rank: int, *, ranks: int, steps: int) -> ev.Inputs:
    """Return what a rank is given for one step: two samples of the epoch's order."""
    order = shuffled(epoch, 2 * ranks * steps)
    at = 2 * (((step - 1) % steps) * ranks + rank)
    samples = "".join(order[at : at + 2])
    return ev.Inputs(count=2, digest=digest(samples), samples=samples)
