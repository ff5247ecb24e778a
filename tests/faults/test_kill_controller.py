"""A controller is gone when its workers are."""

from collections.abc import Callable

from chaos.faults.kill_controller import KillController
from chaos.faults.world import Outcome
from tests.faults.conftest import Strikes
from tests.world import FakeWorld

Strike = Callable[[Strikes], Outcome]


def test_a_controller_is_gone_when_its_workers_are(inject: Strike, world: FakeWorld) -> None:
    assert inject(KillController()).status == "ok"
    assert world.done == ["end controller"]
