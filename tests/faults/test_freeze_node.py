"""A node stands still, and goes on after its time."""

from collections.abc import Callable

from chaos.faults.freeze_node import FreezeNode
from chaos.faults.world import Outcome
from tests.accepted import expect_text
from tests.faults.conftest import Strikes
from tests.world import RANK_1, FakeWorld

Strike = Callable[[Strikes], Outcome]


def test_a_frozen_node_goes_on_after_its_time(inject: Strike, world: FakeWorld) -> None:
    outcome = inject(FreezeNode(for_s=3))
    healed = FreezeNode(for_s=3).heal(world, RANK_1)

    assert world.done == ["freeze node-b", "3 s pass", "thaw node-b"]
    assert outcome == Outcome("ok", outcome.detail)
    expect_text(outcome.detail)
    assert healed == "node node-b goes on after 3 s"


def test_a_frozen_node_goes_on_when_the_run_is_over(world: FakeWorld) -> None:
    world.over = True

    expect_text(FreezeNode(for_s=3).heal(world, RANK_1))
    assert world.done[-1] == "thaw node-b"


def test_what_could_not_be_stopped_is_let_go_all_the_same(inject: Strike, world: FakeWorld) -> None:
    world.hardy = True

    assert inject(FreezeNode(for_s=3)).status == "fail"
    assert world.done[-1] == "thaw node-b"
