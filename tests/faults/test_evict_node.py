"""An eviction: which signals a node gets, in which order, and when its loss is due."""

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from chaos.faults.evict_node import EvictNode
from chaos.faults.world import Outcome
from tests.accepted import expect_text
from tests.faults.conftest import Strikes
from tests.world import FakeWorld

Strike = Callable[[Strikes], Outcome]
S = 10**9


def test_a_node_that_its_drain_ends_is_not_killed(inject: Strike, world: FakeWorld) -> None:
    outcome = inject(EvictNode(grace_s=9, drain_s=4))

    assert outcome == Outcome("ok", outcome.detail)
    expect_text(outcome.detail)
    assert world.done == ["SIGTERM node-b, drains 4", f"release by {4 * S}"]


@pytest.mark.parametrize("drain_s", [4, 9])
def test_a_node_that_still_drains_is_killed_with_its_grace(
    inject: Strike, world: FakeWorld, drain_s: float
) -> None:
    world.leaves = False

    assert inject(EvictNode(grace_s=4, drain_s=drain_s)).status == "ok"
    assert world.done[-1] == "SIGKILL node-b"


def test_a_node_that_does_not_drain_takes_the_held_worker_with_it(
    inject: Strike, world: FakeWorld
) -> None:
    assert inject(EvictNode(drain_s=0)).status == "ok"
    assert world.done == ["SIGTERM node-b"]


def test_a_hook_gives_its_notice_before_the_signal(inject: Strike, world: FakeWorld) -> None:
    assert inject(EvictNode(hook_s=3, grace_s=9, drain_s=4)).status == "ok"
    assert world.done[:3] == ["notice node-b 3", "release by 99", "SIGTERM node-b, drains 4"]


def test_a_second_signal_announces_nothing_more(inject: Strike, world: FakeWorld) -> None:
    world.leaves = False

    inject(EvictNode(grace_s=5, drain_s=8, again_after_s=1))

    assert [done for done in world.done if "SIG" in done] == [
        "SIGTERM node-b, drains 8",
        "SIGTERM node-b",
        "SIGKILL node-b",
    ]


@pytest.mark.parametrize(
    "fault",
    [
        EvictNode(grace_s=9, drain_s=4),
        EvictNode(grace_s=9, drain_s=4, again_after_s=1),
        EvictNode(grace_s=9, hook_s=3),
    ],
    ids=str,
)
def test_a_job_that_is_over_first_lost_no_node(
    inject: Strike, world: FakeWorld, fault: EvictNode
) -> None:
    world.over, world.leaves = True, False

    assert inject(fault).status == "fail"
    assert "SIGKILL node-b" not in world.done


def test_a_node_that_outlives_sigkill_was_not_lost(inject: Strike, world: FakeWorld) -> None:
    world.hardy = True

    assert inject(EvictNode(grace_s=4, drain_s=9)).status == "fail"


@pytest.mark.parametrize(
    ("settings", "after_deadline_s"),
    [
        ({"grace_s": 9, "drain_s": 4}, 0),
        ({"grace_s": 4, "drain_s": 9}, -5),
        ({"grace_s": 9, "drain_s": 4, "hook_s": 3}, 6),
        ({"grace_s": 20, "drain_s": 4, "hook_s": 3}, 7),
    ],
)
def test_the_node_goes_with_the_first_of_grace_and_drain(
    settings: dict[str, float], after_deadline_s: int
) -> None:
    fault = EvictNode.model_validate(settings)

    assert fault.loss_ns(100 * S) == (100 + after_deadline_s) * S


def test_without_drain_and_hook_nothing_is_announced() -> None:
    assert not EvictNode(drain_s=0).is_announced
    assert EvictNode(drain_s=0, hook_s=3).is_announced
    assert EvictNode().is_announced


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"hook_s": 28}, "below grace_s: the hook is part of it"),
        ({"again_after_s": 30}, "must be below drain_s and what is left of grace_s"),
        ({"again_after_s": 1, "drain_s": 0}, "must be below drain_s"),
        ({"again_after_s": 4, "hook_s": 3, "grace_s": 10}, "what is left of grace_s"),
    ],
)
def test_what_there_is_no_time_for_is_refused(settings: dict[str, float], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        EvictNode.model_validate(settings)
