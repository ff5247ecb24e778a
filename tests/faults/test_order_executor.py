"""The error of a failed save is that of a full disk."""

import errno

import pytest

from chaos.errors import InjectedWriteError
from chaos.faults.order import FailWrite
from chaos.probe.order_executor import OrderExecutor
from chaos.run.clock import SystemClock


def test_the_error_is_that_of_a_full_disk() -> None:
    told: list[str] = []
    order = FailWrite()

    with pytest.raises(InjectedWriteError) as raised:
        OrderExecutor(told.append, SystemClock()).obey(order)

    assert isinstance(raised.value, OSError)
    assert raised.value.errno == errno.ENOSPC
    assert told == [order.token]
