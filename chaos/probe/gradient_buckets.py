"""The order in which DDP sums gradients: the same after a restart as without one.

DDP lays its gradients out in buckets. After its first backward pass it does so anew, in the order
in which they were ready (torch 2.13). If three or more ranks sum a bucket, the rank that begins
depends on the place within the bucket, and the last bit of the sum depends on that rank. So the
first step after a restart would differ from the same step of a run without one, by rounding alone.
Here the first layout stays, in a run with faults and in its baseline. The same numbers are summed,
but together, once the last gradient is there, which is slower. A reducer that waits for its new
layout remembers 16 bytes per parameter and step.
"""

from typing import Any

_ONE_ORDER = 2  # ranks up to which a sum has one order


def has_varying_sums(ranks: int) -> bool:
    """Return whether the order of sums could differ among so many ranks."""
    return ranks > _ONE_ORDER


def keep_first_buckets(ranks: int) -> None:
    """Keep the reducers of this process, one of so many ranks, from laying out buckets anew."""
    if not has_varying_sums(ranks):
        return
    try:
        import torch.distributed
    except ImportError:  # a job that boosts trees needs no torch
        return
    if not torch.distributed.is_available():
        return
    from torch._C._distributed_c10d import Reducer

    # DDP's forward calls it by this name (torch 2.13).
    Reducer._rebuild_buckets = _skip_rebuild  # type: ignore[method-assign, assignment]  # noqa: SLF001


def _skip_rebuild(_: Any) -> bool:  # a Reducer
    return False
