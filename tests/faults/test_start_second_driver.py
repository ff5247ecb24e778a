"""A second driver trains, or waits, before the first goes on."""

from collections.abc import Callable

import pytest

from chaos.faults.start_second_driver import StartSecondDriver
from chaos.faults.world import Outcome
from tests.accepted import expect_text
from tests.faults.conftest import Strikes
from tests.world import FakeWorld

Strike = Callable[[Strikes], Outcome]


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
