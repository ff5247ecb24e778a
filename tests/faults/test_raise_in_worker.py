"""An exception in a worker counts where Ray names it."""

from chaos.faults.order import Raise
from chaos.faults.raise_in_worker import RaiseInWorker
from tests.accepted import expect_text
from tests.faults.conftest import Release
from tests.world import RANK_1, FakeWorld


def test_an_exception_counts_once_ray_names_it(release: Release) -> None:
    world = FakeWorld(errors={1: "UserExceptionWithTraceback: chaos.errors.InjectedError: m"})

    outcome = RaiseInWorker(message="m").inject(world, RANK_1, release)

    assert [order.message for order in release.orders if isinstance(order, Raise)] == ["m"]
    assert outcome.status == "ok"
    expect_text(outcome.detail)


def test_an_exception_that_the_job_catches_did_not_land(release: Release) -> None:
    outcome = RaiseInWorker().inject(FakeWorld(errors=None), RANK_1, release)

    assert outcome.status == "fail"
    assert "was the exception caught?" in outcome.detail


def test_another_error_than_ours_cannot_be_told(release: Release) -> None:
    world = FakeWorld(errors={1: "ActorDiedError: gone"})

    assert RaiseInWorker().inject(world, RANK_1, release).status == "info"
