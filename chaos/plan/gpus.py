"""The shares of the nodes of a local cluster in the GPUs of one machine."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Share: TypeAlias = tuple[str, ...]

_UNITS = 10_000  # Ray counts a resource in ten-thousandths


def split_gpus(gpus: Sequence[str], nodes: int) -> list[Share]:
    """Return the GPUs of each node, by their ids as in `CUDA_VISIBLE_DEVICES`.

    All nodes have equally many, and no GPU belongs to two: NCCL takes no two ranks on one. Where
    there are fewer GPUs than nodes, the last nodes have none. A single GPU belongs to every node:
    one worker at a time has it, on whichever node.
    """
    if len(gpus) <= 1:
        return [tuple(gpus)] * nodes
    gpus_per_node = max(1, len(gpus) // nodes)
    return [tuple(gpus[gpus_per_node * node : gpus_per_node * (node + 1)]) for node in range(nodes)]


def choose_share(wanted_shares: Sequence[Share], held_shares: Iterable[Share]) -> Share:
    """Return the GPUs of a node that joins: those of one that is lost, or a spare's."""
    if {len(share) for share in wanted_shares} == {1} and len(set(wanted_shares)) == 1:
        return wanted_shares[0]
    free_shares = Counter(wanted_shares) - Counter(held_shares)
    return next((share for share in wanted_shares if free_shares[share]), ())


def count_workers(gpus: Sequence[str], nodes: int, *, gpus_per_worker: float) -> int:
    """Return how many workers find `gpus_per_worker` GPUs on a node of theirs at the same time.

    A single GPU that all nodes have is counted once.
    """
    return sum(count_fits(len(share), gpus_per_worker) for share in set(split_gpus(gpus, nodes)))


def count_fits(available: float, needed: float) -> int:
    """Return how often `needed` fits into `available`, by Ray's smallest unit: 0.2 into 1 is 5."""
    return round(available * _UNITS) // max(1, round(needed * _UNITS))
