"""A node is cut off: what is done, what proves it, and how it comes back."""

from collections.abc import Callable

from chaos.faults.partition_node import PartitionNode
from chaos.faults.world import Outcome, RefusedError, Victim
from chaos.run.deed import carried_out
from tests.run.conftest import FakeWorld

VICTIM = Victim(attempt=0, rank=1, pid=101, node_id="node-1")


def test_a_node_is_cut_off_until_it_does_not_answer(
    world: FakeWorld, strike: Callable[[PartitionNode], Outcome]
) -> None:
    outcome = strike(PartitionNode(for_s=3))

    assert outcome == Outcome("ok", "node node-1 does not answer, with rank 1 on it")
    assert world.done == ["cut off node-1 for 3"]


def test_a_node_that_still_answers_was_not_cut_off(
    world: FakeWorld, strike: Callable[[PartitionNode], Outcome]
) -> None:
    world.dies = False

    assert strike(PartitionNode(for_s=3)) == Outcome("fail", "node node-1 still answers")


def test_a_node_comes_back_by_itself(world: FakeWorld) -> None:
    told = PartitionNode(for_s=3).heal(world, VICTIM)

    assert told == "node node-1 answers again"
    assert world.done == ["3 s pass"]


def test_a_node_that_stays_away_is_told(world: FakeWorld) -> None:
    world.dies = False

    assert "does not answer after 18 s more" in PartitionNode(for_s=3).heal(world, VICTIM)


class OneHost(FakeWorld):
    """A world whose nodes share one address."""

    def cut_off_node(self, node_id: str, *, for_s: float) -> None:
        raise RefusedError("all nodes share one host")


def test_where_nodes_share_one_host_it_surely_did_not_happen() -> None:
    outcome = carried_out(PartitionNode(for_s=3), OneHost(), VICTIM, lambda *_, **__: None)

    assert outcome == Outcome("fail", "refused: all nodes share one host")


def test_it_says_for_how_long() -> None:
    assert str(PartitionNode(for_s=8)) == "partition_node (8 s)"
