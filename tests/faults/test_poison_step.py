"""A poisoned step kills the worker, or raises in it."""

from chaos.faults.poison_step import PoisonStep
from tests.faults.conftest import Release
from tests.world import RANK_1, FakeWorld


def test_a_poisoned_step_kills_or_raises(release: Release) -> None:
    world = FakeWorld(errors={1: "InjectedError: a poisoned step"})

    assert PoisonStep(by="raise").inject(world, RANK_1, release).status == "ok"
    assert world.done == ["await failure of attempt 0"]
    assert PoisonStep().inject(world, RANK_1, release).status == "ok"
    assert world.done[1:] == ["SIGKILL 71"]
