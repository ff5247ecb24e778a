"""A killed worker counts as lost where the world shows it."""

import pytest
from pydantic import ValidationError

from chaos.faults.kill_worker import KillWorker
from chaos.faults.raise_in_worker import RaiseInWorker
from chaos.faults.slow_worker import SlowWorker
from chaos.faults.world import RefusedError
from tests.accepted import expect_text
from tests.faults.conftest import Release
from tests.world import RANK_1, FakeWorld

TERM = KillWorker(signal="TERM", grace_s=5)


def test_a_worker_that_heeds_sigterm_is_not_killed(release: Release) -> None:
    world = FakeWorld()

    outcome = TERM.inject(world, RANK_1, release)

    assert world.done == ["SIGTERM 71"]
    assert (outcome.status, outcome.detail[-16:]) == ("ok", "SIGTERM ended it")


def test_a_worker_that_outlives_its_grace_is_killed(release: Release) -> None:
    world = FakeWorld(ends=("KILL",))

    outcome = TERM.inject(world, RANK_1, release)

    assert world.done == ["SIGTERM 71", "SIGKILL 71"]
    expect_text(outcome.detail)


def test_a_worker_that_survives_both_was_not_harmed(release: Release) -> None:
    assert TERM.inject(FakeWorld(ends=()), RANK_1, release).status == "fail"


def test_all_ranks_are_struck_before_any_is_waited_for(release: Release) -> None:
    world = FakeWorld()

    outcome = KillWorker(ranks="all").inject(world, RANK_1, release)

    assert world.done == ["SIGKILL 71", "SIGKILL 70"]
    expect_text(outcome.detail)


def test_a_signal_to_the_tree_comes_to_what_the_worker_started(release: Release) -> None:
    world = FakeWorld(loaders=[80, 81])

    outcome = KillWorker(signal="TERM", to="tree").inject(world, RANK_1, release)

    assert world.done == ["SIGTERM 71", "SIGTERM 80", "SIGTERM 81"]
    assert outcome.status == "ok"
    expect_text(outcome.detail)


def test_a_worker_that_started_no_process_has_no_tree_to_hit(release: Release) -> None:
    world = FakeWorld()

    with pytest.raises(RefusedError, match="no process was started by rank 1"):
        KillWorker(signal="TERM", to="tree").inject(world, RANK_1, release)
    assert world.done == []


def test_a_rank_that_trains_on_is_released_before_it_is_waited_for(release: Release) -> None:
    fault = KillWorker(signal="TERM", grace_s=5, trains_on=True)

    fault.inject(FakeWorld(), RANK_1, release)

    assert release.calls == 1
    assert fault.releases_worker_itself
    assert not TERM.releases_worker_itself


def test_a_rank_that_sigterm_does_not_end_at_once_is_let_go(release: Release) -> None:
    fault = KillWorker(signal="TERM")

    assert fault.releases_worker_itself
    assert fault.inject(FakeWorld(ends=()), RANK_1, release).status == "fail"
    assert release.calls == 1


def test_a_rank_that_sigterm_ends_at_once_ends_where_it_was_held(release: Release) -> None:
    assert KillWorker(signal="TERM").inject(FakeWorld(), RANK_1, release).status == "ok"
    assert release.calls == 0


@pytest.mark.parametrize(
    ("kind", "settings", "why"),
    [
        (KillWorker, {"grace_s": 5}, "grace_s goes with"),
        (KillWorker, {"ranks": "all", "rank": 1}, "either rank or"),
        (KillWorker, {"trains_on": True}, "trains_on goes with grace_s"),
        (KillWorker, {"to": "tree", "via": "ray"}, "goes with a signal"),
        (SlowWorker, {}, "either factor or delay_s"),
        (SlowWorker, {"factor": 2, "delay_s": 1}, "either factor or delay_s"),
        (SlowWorker, {"factor": 1}, "greater than 1"),
        (RaiseInWorker, {"attempts": ()}, "at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(
    kind: type[KillWorker], settings: dict[str, object], why: str
) -> None:
    with pytest.raises(ValidationError, match=why):
        kind.model_validate(settings)
