"""The shares of the nodes of a local cluster in the GPUs of one machine."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Share: TypeAlias = tuple[str, ...]

_UNITS = 10_000  # Ray counts a resource in ten-thousandths


def shares(gpus: Sequence[str], nodes: int) -> list[Share]:
    """Return the GPUs of each node, by their ids as in `CUDA_VISIBLE_DEVICES`.

    All nodes have equally many, and no GPU belongs to two: NCCL takes no two ranks on one. Where
    there are fewer GPUs than nodes, the last nodes have none. A single GPU belongs to every node:
    one worker at a time has it, on whichever node.
    """
    if len(gpus) <= 1:
        return [tuple(gpus)] * nodes
    each = max(1, len(gpus) // nodes)
    return [tuple(gpus[each * node : each * (node + 1)]) for node in range(nodes)]


def share_to_give(wanted: Sequence[Share], held: Iterable[Share]) -> Share:
    """Return the GPUs of a node that joins: those of one that is lost, or a spare's."""
    if {len(share) for share in wanted} == {1} and len(set(wanted)) == 1:
        return wanted[0]
    left = Counter(wanted) - Counter(held)
    return next((share for share in wanted if left[share]), ())


def room(gpus: Sequence[str], nodes: int, *, each: float) -> int:
    """Return how many workers find `each` GPUs on a node of theirs at the same time.

    A single GPU that all nodes have is counted once.
    """
    return sum(times(len(share), each) for share in set(shares(gpus, nodes)))


def times(held: float, each: float) -> int:
    """Return how often `each` fits into `held`, by Ray's smallest unit: 0.2 into 1 is 5 times."""
    return round(held * _UNITS) // max(1, round(each * _UNITS))
