"""DDP's buckets keep their first layout where the order of a sum could differ."""

from typing import Any

import pytest
import torch
from torch._C._distributed_c10d import Reducer

from chaos.probe.gradient_buckets import keep_first_buckets

assert torch.distributed.is_available()


@pytest.mark.parametrize(("ranks", "kept"), [(1, False), (2, False), (3, True), (8, True)])
def test_buckets_are_kept_where_a_sum_has_more_than_one_order(
    monkeypatch: pytest.MonkeyPatch, ranks: int, kept: bool
) -> None:
    own: Any = object()
    monkeypatch.setattr(Reducer, "_rebuild_buckets", own)

    keep_first_buckets(ranks)

    assert (Reducer._rebuild_buckets is not own) is kept
