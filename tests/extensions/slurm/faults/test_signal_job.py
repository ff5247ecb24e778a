"""A signal is sent while the worker is held."""

from collections.abc import Callable

import pytest

from chaos.extensions.slurm.faults.signal_job import SignalJob
from chaos.faults.world import Outcome
from tests.faults.conftest import Strikes
from tests.world import FakeWorld

Inject = Callable[[Strikes], Outcome]


@pytest.mark.parametrize(("to", "whom"), [("steps", "the steps"), ("batch", "the batch shell")])
def test_a_signal_is_sent_while_the_worker_is_held(
    world: FakeWorld, inject: Inject, to: str, whom: str
) -> None:
    assert inject(SignalJob(to=to)).status == "ok"  # type: ignore[arg-type]

    assert world.done == [f"SIGUSR1 to {whom}", "release"]


def test_a_signal_that_no_node_sends_is_no_fault(world: FakeWorld, inject: Inject) -> None:
    world.hardy = True

    assert inject(SignalJob()).status == "fail"
