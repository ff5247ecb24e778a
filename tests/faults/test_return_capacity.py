"""Nodes come while the job goes on, or while it is held."""

from collections.abc import Callable

from chaos.faults.return_capacity import ReturnCapacity
from chaos.faults.world import Outcome
from tests.faults.conftest import Strikes
from tests.world import FakeWorld

Strike = Callable[[Strikes], Outcome]


def test_nodes_come_while_the_job_goes_on(inject: Strike, world: FakeWorld) -> None:
    assert inject(ReturnCapacity(nodes=2, after_s=4)).status == "ok"
    assert world.done == ["release", "4 s pass", "add 2"]


def test_training_may_be_held_until_the_nodes_are_there(inject: Strike, world: FakeWorld) -> None:
    assert inject(ReturnCapacity(nodes=2, after_s=4, hold=True)).status == "ok"
    assert world.done == ["4 s pass", "add 2"]  # whoever strikes lets go after it


def test_nodes_that_never_join_have_not_returned(inject: Strike, world: FakeWorld) -> None:
    world.hardy = True

    assert inject(ReturnCapacity(nodes=1)).status == "fail"


def test_nodes_that_come_after_the_job_are_of_no_use(inject: Strike, world: FakeWorld) -> None:
    world.over = True

    assert inject(ReturnCapacity(nodes=1)).status == "fail"
    assert "add 1" not in world.done
