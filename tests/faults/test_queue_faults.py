"""Faults of a queue of jobs: the job goes back into it, stands still, or is signalled."""

from collections.abc import Callable

import pytest

from chaos.extensions.slurm.faults.reach_time_limit import ReachTimeLimit
from chaos.extensions.slurm.faults.requeue_job import RequeueJob
from chaos.extensions.slurm.faults.restart_slurmctld import RestartSlurmctld
from chaos.extensions.slurm.faults.signal_job import SignalJob
from chaos.extensions.slurm.faults.suspend_job import SuspendJob
from chaos.faults.world import Outcome
from tests.accepted import expect_text
from tests.faults.conftest import Strikes
from tests.world import RANK_1, FakeWorld

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


def test_a_suspended_job_is_resumed(world: FakeWorld, inject: Inject) -> None:
    assert inject(SuspendJob(for_s=1.0)).status == "ok"

    assert SuspendJob(for_s=1.0).heal(world, RANK_1).startswith("the job was resumed")
    assert [done for done in world.done if "s" in done][-1] == "resume"


def test_a_job_whose_worker_goes_on_was_not_suspended(world: FakeWorld, inject: Inject) -> None:
    world.stops = False

    assert inject(SuspendJob()).status == "fail"


@pytest.mark.parametrize(("to", "whom"), [("steps", "the steps"), ("batch", "the batch shell")])
def test_a_signal_is_sent_while_the_worker_is_held(
    world: FakeWorld, inject: Inject, to: str, whom: str
) -> None:
    assert inject(SignalJob(to=to)).status == "ok"  # type: ignore[arg-type]

    assert world.done == [f"SIGUSR1 to {whom}", "release"]


def test_a_signal_that_no_node_sends_is_no_fault(world: FakeWorld, inject: Inject) -> None:
    world.hardy = True

    assert inject(SignalJob()).status == "fail"


def test_the_end_of_its_time_ends_a_job(world: FakeWorld, inject: Inject) -> None:
    assert inject(ReachTimeLimit()).status == "ok"

    assert world.done == ["time limit", "release"]


def test_a_job_that_outlives_its_time_was_not_ended(world: FakeWorld, inject: Inject) -> None:
    world.hardy = True

    assert inject(ReachTimeLimit()).status == "fail"


def test_slurmctld_is_started_again(world: FakeWorld, inject: Inject) -> None:
    assert inject(RestartSlurmctld()).status == "ok"

    assert world.done[:2] == ["stop slurmctld", "release"]
    assert world.done[-1] == "start slurmctld"


def test_a_slurmctld_that_does_not_answer_is_not_known_to_be_back(
    world: FakeWorld, inject: Inject
) -> None:
    world.hardy = True

    assert inject(RestartSlurmctld()).status == "info"
