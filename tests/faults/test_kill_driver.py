"""A driver is gone when its workers are."""

from collections.abc import Callable

from chaos.faults.kill_controller import KillController
from chaos.faults.kill_driver import KillDriver
from chaos.faults.world import Outcome
from tests.faults.conftest import Strikes
from tests.world import FakeWorld

Strike = Callable[[Strikes], Outcome]


def test_a_driver_is_gone_when_its_workers_are(inject: Strike, world: FakeWorld) -> None:
    assert inject(KillDriver()).status == "ok"
    assert world.done == ["end driver"]


def test_a_worker_that_outlives_its_driver_leaves_a_doubt(inject: Strike, world: FakeWorld) -> None:
    world.hardy = True

    assert inject(KillDriver()).status == "info"
    assert inject(KillController()).status == "info"
