"""A loader's process counts as killed where it is gone, and where there is one."""

import pytest

from chaos.faults.kill_loader import KillLoader
from chaos.faults.world import RefusedError
from tests.accepted import expect_text
from tests.faults.conftest import Release
from tests.world import RANK_1, FakeWorld


def test_the_oldest_process_is_killed_once_the_loader_is_idle(release: Release) -> None:
    world = FakeWorld(loaders=[80, 81])

    outcome = KillLoader().inject(world, RANK_1, release)

    assert world.done == ["0.2 s pass", "SIGKILL 80"]
    assert outcome.status == "ok"
    expect_text(outcome.detail)


def test_every_process_is_killed_by_the_signal_that_is_named(release: Release) -> None:
    world = FakeWorld(loaders=[80, 81])

    KillLoader(signal="TERM", processes="all").inject(world, RANK_1, release)

    assert world.done[1:] == ["SIGTERM 80", "SIGTERM 81"]


def test_processes_that_survive_were_not_harmed(release: Release) -> None:
    assert KillLoader().inject(FakeWorld(loaders=[80], ends=()), RANK_1, release).status == "fail"


def test_a_loss_of_some_of_them_is_not_known_to_be_the_fault(release: Release) -> None:
    world = FakeWorld(loaders=[80, 0], ends=())  # a pid of 0 is always gone

    assert KillLoader(processes="all").inject(world, RANK_1, release).status == "info"


def test_a_rank_without_loader_processes_is_refused(release: Release) -> None:
    with pytest.raises(RefusedError, match="rank 1 has no loader process there"):
        KillLoader().inject(FakeWorld(), RANK_1, release)
