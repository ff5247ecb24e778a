"""A requeued job goes back into the queue, and its worker is seen to end."""

from collections.abc import Callable

from chaos.extensions.slurm.faults.requeue_job import RequeueJob
from chaos.faults.world import Outcome
from tests.accepted import expect_text
from tests.faults.conftest import Strikes
from tests.world import FakeWorld

Inject = Callable[[Strikes], Outcome]


def test_a_requeued_jobs_worker_is_seen_to_end(world: FakeWorld, inject: Inject) -> None:
    outcome = inject(RequeueJob())

    assert (outcome.status, world.done) == ("ok", ["requeue", "release"])
    assert "pid 71 of rank 1 is gone" in outcome.detail


def test_a_held_job_is_released_later(world: FakeWorld, inject: Inject) -> None:
    assert inject(RequeueJob(held_s=2.0)).status == "ok"

    assert world.done[0] == "requeue and hold"
    assert world.done[-1] == "release the job"


def test_a_worker_that_outlives_the_requeue_is_no_fault(inject: Inject, world: FakeWorld) -> None:
    world.hardy = True

    assert inject(RequeueJob()).status == "fail"


def test_a_node_whose_prolog_fails_is_given_back_and_the_job_released(
    world: FakeWorld, inject: Inject
) -> None:
    outcome = inject(RequeueJob(prolog_fails=True))

    assert outcome.status == "ok"
    expect_text(outcome.detail)
    assert world.done[:2] == ["let the prolog fail", "requeue"]
    assert world.done[-2:] == ["give back node-0", "release the job"]


def test_a_prolog_that_drains_no_node_has_not_failed(world: FakeWorld, inject: Inject) -> None:
    world.stops = False

    assert inject(RequeueJob(prolog_fails=True)).status == "fail"
