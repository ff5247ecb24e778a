"""How the GPUs of one machine are shared out among the nodes of a local cluster."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Share: TypeAlias = tuple[str, ...]

_UNITS = 10_000  # Ray counts a resource in ten-thousandths


def shares(gpus: Sequence[str], nodes: int) -> list[Share]:
    """Return each node the GPUs that it has, by their ids as in `CUDA_VISIBLE_DEVICES`.

    As many each as there are for all, and no GPU twice: NCCL takes no two ranks
    on one. Where there are fewer than nodes, the last ones have none. A single
    GPU is every node's: one worker at a time has it, wherever that one is.
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
