"""The end of its time ends a job."""

from collections.abc import Callable

from chaos.extensions.slurm.faults.reach_time_limit import ReachTimeLimit
from chaos.faults.world import Outcome
from tests.faults.conftest import Strikes
from tests.world import FakeWorld

Inject = Callable[[Strikes], Outcome]


def test_the_end_of_its_time_ends_a_job(world: FakeWorld, inject: Inject) -> None:
    assert inject(ReachTimeLimit()).status == "ok"

    assert world.done == ["time limit", "release"]


def test_a_job_that_outlives_its_time_was_not_ended(world: FakeWorld, inject: Inject) -> None:
    world.hardy = True

    assert inject(ReachTimeLimit()).status == "fail"
