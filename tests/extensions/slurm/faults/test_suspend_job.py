"""A suspended job stands still, and is resumed."""

from collections.abc import Callable

from chaos.extensions.slurm.faults.suspend_job import SuspendJob
from chaos.faults.world import Outcome
from tests.faults.conftest import Strikes
from tests.world import RANK_1, FakeWorld

Inject = Callable[[Strikes], Outcome]


def test_a_suspended_job_is_resumed(world: FakeWorld, inject: Inject) -> None:
    assert inject(SuspendJob(for_s=1.0)).status == "ok"

    assert SuspendJob(for_s=1.0).heal(world, RANK_1).startswith("the job was resumed")
    assert [done for done in world.done if "s" in done][-1] == "resume"


def test_a_job_whose_worker_goes_on_was_not_suspended(world: FakeWorld, inject: Inject) -> None:
    world.stops = False

    assert inject(SuspendJob()).status == "fail"
