"""A sharded state is compared as that of all ranks."""

import msgspec
import pytest

from chaos.extensions.guard.judge import (
    find_origin,
)
from chaos.extensions.guard.merged_ranks import collect_rank_starts, merge_saves, merge_starts
from chaos.extensions.guard.records import RankSave
from chaos.model.event import Component, Share
from tests.extensions.guard.saved_states import save, start, wrong


def shared_out(digest: int, ranks: int, part: str = "model") -> list[Component]:
    """Return the shares of a part that add up to the same, whatever the number of ranks."""
    first = Component(name=part, digest="own", count=1, structure=f"{part}-{ranks}")
    sums = [*range(1, ranks), digest - sum(range(1, ranks))]
    return [
        msgspec.structs.replace(
            first,
            digest=f"{rank}/{ranks}",
            structure=part,
            share=Share(
                sum=f"{own % 2**64:016x}", squares=1.0, elements=8 // ranks, whole_elements=8
            ),
        )
        for rank, own in enumerate(sums)
    ]


def saved_by(ranks: int, model: int, optimizer: int) -> list[RankSave]:
    both = zip(
        shared_out(model, ranks), shared_out(optimizer, ranks, "optimizer.exp_avg"), strict=True
    )
    return [
        save(8, rank=rank, ranks=ranks, tensors=(), made=parts, entered=parts)
        for rank, parts in enumerate(both)
    ]


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4), (2, 1)])
def test_a_resharded_state_is_compared_as_that_of_all_ranks(before: int, after: int) -> None:
    (known,) = merge_saves(saved_by(before, 900, 700))
    right = [
        start(3, rank=own.rank, ranks=after, entered=own.made) for own in saved_by(after, 900, 700)
    ]
    seen = merge_starts(right)
    origin = find_origin(seen, [known])
    assert origin is not None
    assert wrong(seen, origin.save) == []
    lost = [
        start(3, rank=own.rank, ranks=after, entered=own.made) for own in saved_by(after, 900, 1)
    ]
    assert wrong(merge_starts(lost), known) != []


def test_a_save_of_which_a_rank_is_missing_is_no_measure() -> None:
    assert merge_saves(saved_by(4, 900, 700)[1:]) == []


def test_the_ranks_of_a_start_are_those_that_began_with_it() -> None:
    before = [start(0, rank=rank, ranks=2, began_s=0.0) for rank in (0, 1)]
    own = start(1, rank=0, ranks=4, began_s=50.0)
    others = [start(1, rank=rank, ranks=4, began_s=51.0) for rank in (1, 2, 3)]
    assert [one.rank for one in collect_rank_starts(own, [*before, *others], before_s=0.0)] == [
        0,
        1,
        2,
        3,
    ]
    assert [one.rank for one in collect_rank_starts(own, [*before, *others[:1]], before_s=0.0)] == [
        0,
        1,
    ]
