"""A node is killed, alone or with others, and what counts as proof."""

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from chaos.faults.kill_node import KillNode
from chaos.faults.world import Outcome
from tests.faults.conftest import Strikes
from tests.world import RANK_1, FakeWorld

Strike = Callable[[Strikes], Outcome]


def test_the_nodes_of_several_ranks_go_before_any_proof_is_asked_for(
    inject: Strike, world: FakeWorld
) -> None:
    outcome = inject(KillNode(ranks=(1, 0)))

    assert world.done == ["lose node-a", "lose node-b"]
    assert outcome.status == "ok"
    assert "rank 0" in outcome.detail
    assert "rank 1" in outcome.detail


def test_a_rank_that_nobody_holds_takes_no_node_with_it(inject: Strike, world: FakeWorld) -> None:
    world.workers = {1: RANK_1}

    with pytest.raises(ProcessLookupError):
        inject(KillNode(ranks=(0, 1)))

    assert not world.done


def test_a_raylet_can_be_ended_alone(inject: Strike, world: FakeWorld) -> None:
    assert inject(KillNode(raylet_only=True)).status == "ok"
    assert world.done == ["lose raylet of node-b"]


def test_a_node_that_lives_on_was_not_lost(inject: Strike, world: FakeWorld) -> None:
    world.hardy = True

    assert inject(KillNode(ranks=(0, 1))).status == "fail"


def test_one_node_or_several_but_not_both() -> None:
    with pytest.raises(ValidationError, match="either rank or ranks"):
        KillNode(rank=0, ranks=(1,))
