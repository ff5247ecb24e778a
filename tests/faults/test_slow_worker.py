"""A slow worker counts where a step was delayed."""

from chaos.faults.order import Slow
from chaos.faults.slow_worker import SlowWorker
from tests.faults.conftest import Release
from tests.world import RANK_1, FakeWorld


def test_a_slow_worker_counts_once_a_step_was_delayed(release: Release) -> None:
    fault = SlowWorker(factor=3.0, steps=4)

    assert fault.inject(FakeWorld(), RANK_1, release).status == "ok"
    assert fault.inject(FakeWorld(obeys=False), RANK_1, release).status == "fail"
    first = release.orders[0]
    assert isinstance(first, Slow)
    assert (first.factor, first.delay_s, first.steps) == (3.0, None, 4)


def test_two_orders_are_told_apart_though_they_say_the_same(release: Release) -> None:
    for _ in range(2):
        SlowWorker(delay_s=1.0).inject(FakeWorld(), RANK_1, release)

    assert len({order.token for order in release.orders}) == 2
