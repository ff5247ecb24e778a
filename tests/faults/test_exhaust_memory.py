"""A worker that holds its memory is killed, and no machine runs out of its own."""

from chaos.faults.exhaust_memory import ExhaustMemory
from chaos.faults.order import Exhaust
from tests.accepted import expect_text
from tests.faults.conftest import Release
from tests.world import RANK_1, FakeWorld


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
