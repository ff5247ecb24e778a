"""Spare nodes that are withheld are gone, for ever or for a time."""

from collections.abc import Callable

from chaos.faults.withhold_capacity import WithholdCapacity
from chaos.faults.world import Outcome
from tests.faults.conftest import Strikes
from tests.world import FakeWorld

Strike = Callable[[Strikes], Outcome]


def test_withheld_nodes_are_gone_before_the_worker_goes_on(
    inject: Strike, world: FakeWorld
) -> None:
    assert inject(WithholdCapacity(nodes=2)).status == "ok"
    assert world.done == ["lose spare-0", "lose spare-1", "release"]


def test_nodes_that_are_withheld_for_a_time_are_replaced(inject: Strike, world: FakeWorld) -> None:
    assert inject(WithholdCapacity(nodes=1, for_s=5)).status == "ok"
    assert world.done == ["lose spare-0", "release", "5 s pass", "add 1"]


def test_a_node_that_holds_a_worker_is_not_withheld(inject: Strike, world: FakeWorld) -> None:
    outcome = inject(WithholdCapacity(nodes=3))

    assert outcome == Outcome("fail", "2 of 3 nodes hold no worker")
    assert not world.done


def test_an_idle_node_that_lives_on_was_not_withheld(inject: Strike, world: FakeWorld) -> None:
    world.hardy = True

    assert inject(WithholdCapacity(nodes=1)).status == "fail"
