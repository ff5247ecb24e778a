"""The controller of Slurm is started again, and answers."""

from collections.abc import Callable

from chaos.extensions.slurm.faults.restart_slurmctld import RestartSlurmctld
from chaos.faults.world import Outcome
from tests.faults.conftest import Strikes
from tests.world import FakeWorld

Inject = Callable[[Strikes], Outcome]


def test_slurmctld_is_started_again(world: FakeWorld, inject: Inject) -> None:
    assert inject(RestartSlurmctld()).status == "ok"

    assert world.done[:2] == ["stop slurmctld", "release"]
    assert world.done[-1] == "start slurmctld"


def test_a_slurmctld_that_does_not_answer_is_not_known_to_be_back(
    world: FakeWorld, inject: Inject
) -> None:
    world.hardy = True

    assert inject(RestartSlurmctld()).status == "info"
