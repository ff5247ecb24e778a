"""A node is cut off: what is done, what proves it, and how it comes back."""

from collections.abc import Callable

from chaos.faults.partition_node import PartitionNode
from chaos.faults.world import Outcome, RefusedError
from chaos.run.controller import inject_fault
from tests.accepted import expect_text
from tests.world import RANK_1, FakeWorld


def test_a_node_is_cut_off_until_it_does_not_answer(
    world: FakeWorld, inject: Callable[[PartitionNode], Outcome]
) -> None:
    outcome = inject(PartitionNode(for_s=3))

    assert outcome == Outcome("ok", outcome.detail)
    expect_text(outcome.detail)
    assert world.done == ["cut off node-b for 3"]


def test_a_node_that_still_answers_was_not_cut_off(
    world: FakeWorld, inject: Callable[[PartitionNode], Outcome]
) -> None:
    world.hardy = True

    assert inject(PartitionNode(for_s=3)) == Outcome("fail", "node node-b still answers")


def test_a_node_comes_back_by_itself(world: FakeWorld) -> None:
    told = PartitionNode(for_s=3).heal(world, RANK_1)

    assert told == "node node-b answers again"
    assert world.done == ["3 s pass"]


def test_a_node_that_stays_away_is_told(world: FakeWorld) -> None:
    world.hardy = True

    expect_text(PartitionNode(for_s=3).heal(world, RANK_1))


class OneHost(FakeWorld):
    """A world whose nodes share one address."""

    def cut_off_node(self, node_id: str, *, for_s: float) -> None:
        raise RefusedError("all nodes share one host")


def test_where_nodes_share_one_host_it_surely_did_not_happen() -> None:
    outcome = inject_fault(PartitionNode(for_s=3), OneHost(), RANK_1, lambda *_, **__: None)

    assert outcome == Outcome("fail", outcome.detail)
    expect_text(outcome.detail)


def test_it_says_for_how_long() -> None:
    assert str(PartitionNode(for_s=8)) == "partition_node (8 s)"
