"""Shares of sharded tensors add up to the same, whatever the sharding."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.placement_types import Placement
from torch.testing._internal.distributed.fake_pg import FakeStore

from chaos.model.event import Share
from chaos.probe.state import part
from chaos.probe.state.part import UnreadComponent

TYPES = (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.complex64)
SHAPES = st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple)


@contextmanager
def rank_of(rank: int, world: int) -> Iterator[None]:
    """Be one of several ranks that never speak to one another."""
    dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def numbers(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    draws = torch.Generator().manual_seed(seed)
    return torch.randint(1, 250, shape, generator=draws).to(dtype)


def held(
    whole: torch.Tensor, mesh: tuple[int, ...], kinds: tuple[Placement, ...], rank: int
) -> Share | None:
    """Return what one rank of a mesh holds of a tensor."""
    with rank_of(rank, prod(mesh)):
        grid = init_device_mesh("cpu", mesh)
        local = whole
        for size, kind, at in zip(mesh, kinds, grid.get_coordinate() or (), strict=True):
            if isinstance(kind, Shard):
                parts = local.chunk(size, dim=kind.dim)
                empty = local.narrow(kind.dim, 0, 0)
                local = parts[at] if at < len(parts) else empty
        shard = DTensor.from_local(
            local, grid, kinds, run_check=False, shape=whole.shape, stride=whole.stride()
        )
        return part.start_share_sums([("", shard)])()


def together(
    whole: torch.Tensor, mesh: tuple[int, ...], kinds: tuple[Placement, ...]
) -> tuple[int, int, set[int]]:
    """Return the sum over all ranks, of how many elements it is, and how many there are."""
    every = [held(whole, mesh, kinds, rank) for rank in range(prod(mesh))]
    seen = [share for share in every if share is not None]
    assert len(seen) == len(every)
    total = sum(int(share.sum, 16) for share in seen) % 2**64
    return total, sum(share.elements for share in seen), {share.whole_elements for share in seen}


@given(SHAPES, st.sampled_from(TYPES), st.integers(1, 5), st.data())
def test_the_sum_does_not_depend_on_the_sharding(
    shape: tuple[int, ...], dtype: torch.dtype, world: int, data: st.DataObject
) -> None:
    whole = numbers(shape, dtype)
    axis = data.draw(st.integers(0, len(shape) - 1))

    of_one = together(whole, (1,), (Shard(0),))
    assert together(whole, (world,), (Shard(axis),)) == of_one
    assert of_one[2] == {of_one[1]}


def test_copies_count_once_and_two_axes_are_as_one() -> None:
    whole = numbers((5, 6), torch.float32)

    of_one = together(whole, (1,), (Shard(0),))
    assert together(whole, (2, 3), (Replicate(), Shard(0))) == of_one
    assert together(whole, (2, 3), (Shard(1), Replicate())) == of_one
    assert together(whole, (2, 3), (Shard(0), Shard(1))) == of_one


@given(st.data())
def test_any_change_shows_and_so_do_elements_that_change_places(data: st.DataObject) -> None:
    whole = numbers((4, 3), torch.float32)
    one, other = data.draw(st.lists(st.integers(0, 11), min_size=2, max_size=2, unique=True))
    changed, swapped = whole.clone(), whole.clone()
    changed.view(-1)[one] = -changed.view(-1)[one]
    swapped.view(-1)[[one, other]] = swapped.view(-1)[[other, one]]

    before = together(whole, (2,), (Shard(0),))
    assert together(changed, (2,), (Shard(0),)) != before
    assert (together(swapped, (2,), (Shard(0),)) == before) == torch.equal(swapped, whole)


def test_every_place_of_every_dimension_has_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "_CPU_SLAB_SIZE", 8)  # several slabs
    whole = torch.zeros(6, 6, 3)
    sums = set()
    for place in range(whole.numel()):
        whole.zero_().view(-1)[place] = 1.0
        sums.add(together(whole, (2,), (Shard(0),))[0])

    assert len(sums) == whole.numel()


def test_a_tensor_that_is_not_sharded_is_rank_0s_beside_one_that_is() -> None:
    whole, plain = numbers((4, 2), torch.float32), torch.ones(3)

    def of(rank: int) -> Share | None:
        with rank_of(rank, 2):
            mesh = init_device_mesh("cpu", (2,))
            rows = whole[2 * rank : 2 * rank + 2]
            shard = DTensor.from_local(rows, mesh, [Shard(0)], run_check=False)
            return UnreadComponent.from_entries(
                "p", [("0", shard), ("1", plain)], with_size=True
            ).share()

    first, second = of(0), of(1)
    assert first is not None
    assert second is not None
    assert (first.elements, second.elements, first.whole_elements) == (7, 4, 11)
    squares = float((whole**2).sum()) + 3
    assert float(first.squares) + float(second.squares) == pytest.approx(squares)


def test_what_is_not_sharded_or_still_to_be_summed_has_no_share() -> None:
    assert part.start_share_sums([("", torch.ones(3))])() is None
    assert (
        UnreadComponent.from_value("numbers", [1, 2], with_size=True).build_component().share
        is None
    )
    assert held(torch.ones(4), (2,), (Partial(),), 0) is None
