"""Training goes on while the GCS is down, which comes back."""

from collections.abc import Callable

from chaos.faults.kill_gcs import KillGcs
from chaos.faults.world import Outcome
from tests.accepted import expect_text
from tests.faults.conftest import Strikes
from tests.world import FakeWorld

Strike = Callable[[Strikes], Outcome]


def test_training_goes_on_while_the_gcs_is_down(inject: Strike, world: FakeWorld) -> None:
    outcome = inject(KillGcs(down_s=2))
    assert outcome == Outcome("ok", outcome.detail)
    expect_text(outcome.detail)
    assert world.done == ["end GCS", "release", "2 s pass", "start GCS"]


def test_a_gcs_that_does_not_come_back_leaves_the_harm_in_doubt(
    inject: Strike, world: FakeWorld
) -> None:
    world.hardy = True

    assert inject(KillGcs()).status == "info"
