"""Each fault does its harm, and says `ok` only where the world shows it."""

import pytest
from pydantic import ValidationError

from chaos.faults.exhaust_memory import ExhaustMemory
from chaos.faults.hang_worker import HangWorker
from chaos.faults.kill_worker import KillWorker
from chaos.faults.order import Exhaust, Hang, Raise, Slow
from chaos.faults.pause_worker import PauseWorker
from chaos.faults.poison_step import PoisonStep
from chaos.faults.raise_in_worker import RaiseInWorker
from chaos.faults.slow_worker import SlowWorker
from chaos.faults.world import HealableFault, RefusedError
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


def test_an_exception_counts_once_ray_names_it(release: Release) -> None:
    world = FakeWorld(errors={1: "UserExceptionWithTraceback: chaos.errors.InjectedError: m"})

    outcome = RaiseInWorker(message="m").inject(world, RANK_1, release)

    assert [order.message for order in release.orders if isinstance(order, Raise)] == ["m"]
    assert outcome.status == "ok"
    expect_text(outcome.detail)


def test_an_exception_that_the_job_catches_did_not_land(release: Release) -> None:
    outcome = RaiseInWorker().inject(FakeWorld(errors=None), RANK_1, release)

    assert outcome.status == "fail"
    assert "was the exception caught?" in outcome.detail


def test_another_error_than_ours_cannot_be_told(release: Release) -> None:
    world = FakeWorld(errors={1: "ActorDiedError: gone"})

    assert RaiseInWorker().inject(world, RANK_1, release).status == "info"


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


def test_a_slow_worker_counts_once_a_step_was_delayed(release: Release) -> None:
    fault = SlowWorker(factor=3.0, steps=4)

    assert fault.inject(FakeWorld(), RANK_1, release).status == "ok"
    assert fault.inject(FakeWorld(obeys=False), RANK_1, release).status == "fail"
    first = release.orders[0]
    assert isinstance(first, Slow)
    assert (first.factor, first.delay_s, first.steps) == (3.0, None, 4)


def test_two_orders_are_told_apart_though_they_say_the_same(release: Release) -> None:
    for _ in range(2):
        SlowWorker(delay_s=1.0).inject(FakeWorld(), RANK_1, release)

    assert len({order.token for order in release.orders}) == 2


def test_a_hang_counts_once_the_worker_has_had_its_last_word(release: Release) -> None:
    fault = HangWorker(where="collective")

    assert fault.inject(FakeWorld(), RANK_1, release).status == "ok"
    assert fault.inject(FakeWorld(obeys=False), RANK_1, release).status == "fail"
    assert all(isinstance(order, Hang) for order in release.orders)


def test_a_poisoned_step_kills_or_raises(release: Release) -> None:
    world = FakeWorld(errors={1: "InjectedError: a poisoned step"})

    assert PoisonStep(by="raise").inject(world, RANK_1, release).status == "ok"
    assert world.done == ["await failure of attempt 0"]
    assert PoisonStep().inject(world, RANK_1, release).status == "ok"
    assert world.done[1:] == ["SIGKILL 71"]


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


def test_a_worker_that_holds_its_memory_is_killed(release: Release) -> None:
    world = FakeWorld()

    outcome = ExhaustMemory(bytes=2**21).inject(world, RANK_1, release)

    assert [order.bytes for order in release.orders if isinstance(order, Exhaust)] == [2**21]
    assert world.done == ["SIGKILL 71"]
    assert outcome.status == "ok"
    expect_text(outcome.detail)


def test_the_memory_monitor_is_blamed_before_the_worker_ends(release: Release) -> None:
    world = FakeWorld()

    ExhaustMemory(bytes=2**21, by="raylet").inject(world, RANK_1, release)

    assert world.done == ["blame memory for 71", "SIGKILL 71"]


def test_memory_is_not_taken_where_the_machine_might_run_out(release: Release) -> None:
    world = FakeWorld(free=2**22 - 1)

    outcome = ExhaustMemory(bytes=2**21).inject(world, RANK_1, release)

    assert (outcome.status, world.done, release.orders) == ("fail", [], [])


def test_a_worker_that_did_not_take_its_memory_leaves_the_harm_in_doubt(release: Release) -> None:
    outcome = ExhaustMemory(bytes=2**21).inject(FakeWorld(obeys=False), RANK_1, release)

    assert outcome.status == "info"


def test_a_worker_that_survives_its_memory_was_not_harmed(release: Release) -> None:
    assert ExhaustMemory(bytes=1).inject(FakeWorld(ends=()), RANK_1, release).status == "fail"
