"""What is done to spare nodes and to the processes that control a job."""

from collections.abc import Callable

import pytest

from chaos.faults.kill_controller import KillController
from chaos.faults.kill_driver import KillDriver
from chaos.faults.kill_gcs import KillGcs
from chaos.faults.return_capacity import ReturnCapacity
from chaos.faults.start_second_driver import StartSecondDriver
from chaos.faults.withhold_capacity import WithholdCapacity
from chaos.faults.world import Outcome
from tests.accepted import expect_text
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


def test_a_driver_is_gone_when_its_workers_are(inject: Strike, world: FakeWorld) -> None:
    assert inject(KillDriver()).status == "ok"
    assert world.done == ["end driver"]


def test_a_worker_that_outlives_its_driver_leaves_a_doubt(inject: Strike, world: FakeWorld) -> None:
    world.hardy = True

    assert inject(KillDriver()).status == "info"
    assert inject(KillController()).status == "info"


def test_a_controller_is_gone_when_its_workers_are(inject: Strike, world: FakeWorld) -> None:
    assert inject(KillController()).status == "ok"
    assert world.done == ["end controller"]


def test_training_goes_on_while_the_gcs_is_down(inject: Strike, world: FakeWorld) -> None:
    outcome = inject(KillGcs(down_s=2))
    assert outcome == Outcome("ok", outcome.detail)
    expect_text(outcome.detail)
    assert world.done == ["end GCS", "release", "2 s pass", "start GCS"]


def test_a_gcs_that_does_not_come_back_leaves_the_harm_in_doubt(
    inject: Strike, world: FakeWorld
) -> None:
    world.hardy = True

    assert inject(KillGcs()).status == "info"


SECOND = ["start driver", "await driver 56 or attempt 1"]


def test_a_second_driver_trains_before_the_first_goes_on(inject: Strike, world: FakeWorld) -> None:
    assert inject(StartSecondDriver()) == Outcome("ok", "driver 56 trains")
    assert world.done == SECOND


def test_a_second_driver_that_waits_for_something_has_started(
    inject: Strike, world: FakeWorld
) -> None:
    world.obeys = False

    outcome = inject(StartSecondDriver())
    assert outcome == Outcome("ok", outcome.detail)
    expect_text(outcome.detail)


def test_whether_a_driver_that_is_late_will_start_is_not_known(
    inject: Strike, world: FakeWorld
) -> None:
    world.hardy = True

    assert inject(StartSecondDriver()).status == "info"


def test_the_first_driver_stands_still_while_the_second_comes(
    inject: Strike, world: FakeWorld
) -> None:
    outcome = inject(StartSecondDriver(frozen_s=4))

    assert outcome == Outcome("ok", outcome.detail)
    expect_text(outcome.detail)
    assert world.done == ["freeze driver", *SECOND, "4 s pass", "thaw driver"]


def test_a_first_driver_that_cannot_be_stopped_goes_on_alone(
    inject: Strike, world: FakeWorld
) -> None:
    world.stops = False

    assert inject(StartSecondDriver(frozen_s=4)).status == "fail"
    assert world.done == ["freeze driver", "thaw driver"]


def test_a_freeze_that_fails_half_way_leaves_nothing_frozen(
    inject: Strike, world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def freeze(*, within_s: float) -> int:
        raise PermissionError(within_s)

    monkeypatch.setattr(world, "freeze_driver", freeze)

    with pytest.raises(PermissionError):
        inject(StartSecondDriver(frozen_s=4))
    assert world.done == ["thaw driver"]
