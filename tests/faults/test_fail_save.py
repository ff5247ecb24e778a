"""A save counts as failed where the rank has raised in it."""

import errno

import pytest

from chaos.errors import InjectedWriteError
from chaos.faults.fail_save import FailSave
from chaos.faults.order import FailWrite
from chaos.probe.order_executor import OrderExecutor
from chaos.run.clock import SystemClock
from tests.faults.conftest import Release
from tests.world import RANK_1, FakeWorld


@pytest.mark.parametrize(("obeys", "status"), [(True, "ok"), (False, "info")])
def test_a_save_has_failed_once_the_rank_has_raised(
    release: Release, *, obeys: bool, status: str
) -> None:
    assert FailSave().inject(FakeWorld(obeys=obeys), RANK_1, release).status == status


def test_the_error_is_that_of_a_full_disk() -> None:
    told: list[str] = []
    order = FailWrite()

    with pytest.raises(InjectedWriteError) as raised:
        OrderExecutor(told.append, SystemClock()).obey(order)

    assert isinstance(raised.value, OSError)
    assert raised.value.errno == errno.ENOSPC
    assert told == [order.token]
