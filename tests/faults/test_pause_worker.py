"""A pause counts while the process is stopped, and is healed."""

from chaos.faults.kill_worker import KillWorker
from chaos.faults.pause_worker import PauseWorker
from chaos.faults.world import HealableFault
from tests.accepted import expect_text
from tests.faults.conftest import Release
from tests.world import RANK_1, FakeWorld


def test_a_pause_counts_while_the_process_is_stopped(release: Release) -> None:
    assert PauseWorker().inject(FakeWorld(), RANK_1, release).status == "ok"
    assert PauseWorker().inject(FakeWorld(stops=False), RANK_1, release).status == "fail"


def test_a_pause_is_healed_after_its_time() -> None:
    world = FakeWorld()

    assert PauseWorker(for_s=3).heal(world, RANK_1) == "pid 71 goes on after 3 s"
    assert world.done == ["3 s pass", "SIGCONT 71"]


def test_a_pause_for_ever_is_healed_at_the_end_of_the_run() -> None:
    world = FakeWorld(over=True)

    expect_text(PauseWorker().heal(world, RANK_1))
    assert world.done[-1] == "SIGCONT 71"


def test_a_paused_worker_that_has_ended_needs_no_healing() -> None:
    assert "nothing to heal" in PauseWorker(for_s=1).heal(FakeWorld(gone={71}), RANK_1)


def test_only_a_pause_needs_healing() -> None:
    assert isinstance(PauseWorker(), HealableFault)
    assert not isinstance(KillWorker(), HealableFault)
