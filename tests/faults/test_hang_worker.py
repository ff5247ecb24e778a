"""A hang counts where the worker has said its last word."""

from chaos.faults.hang_worker import HangWorker
from chaos.faults.order import Hang
from tests.faults.conftest import Release
from tests.world import RANK_1, FakeWorld


def test_a_hang_counts_once_the_worker_has_had_its_last_word(release: Release) -> None:
    fault = HangWorker(where="collective")

    assert fault.inject(FakeWorld(), RANK_1, release).status == "ok"
    assert fault.inject(FakeWorld(obeys=False), RANK_1, release).status == "fail"
    assert all(isinstance(order, Hang) for order in release.orders)
