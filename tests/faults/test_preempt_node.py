"""A node is announced and taken, in which order, and what counts as proof."""

from collections.abc import Callable

import pytest

from chaos.faults.base import Fault
from chaos.faults.evict_node import EvictNode
from chaos.faults.kill_node import KillNode
from chaos.faults.preempt_node import PreemptNode
from chaos.faults.world import Outcome
from tests.accepted import expect_text
from tests.faults.conftest import Strikes
from tests.world import DEADLINE_NS, RANK_1, FakeWorld

Strike = Callable[[Strikes], Outcome]


@pytest.mark.parametrize(
    ("reclaim", "loss_ns"), [("on_time", 10), ("early", 8), ("late", 14), ("never", None)]
)
def test_a_node_goes_when_its_reclaim_says(reclaim: str, loss_ns: int | None) -> None:
    fault = PreemptNode.model_validate({"notice_s": 4e-9, "reclaim": reclaim})

    assert fault.loss_ns(10) == loss_ns


def test_a_node_that_goes_on_time_lets_ray_rule_first(inject: Strike, world: FakeWorld) -> None:
    outcome = inject(PreemptNode(notice_s=1))

    assert outcome.status == "ok"
    assert world.done[-3:] == ["await failure of attempt 0", "0 s pass", "lose node-b"]


@pytest.mark.parametrize(
    "fault", [PreemptNode(notice_s=1, reclaim="early"), PreemptNode(notice_s=0)], ids=str
)
def test_a_node_that_goes_unseen_or_early_waits_for_nobody(
    inject: Strike, world: FakeWorld, fault: PreemptNode
) -> None:
    assert inject(fault).status == "ok"
    assert "await failure of attempt 0" not in world.done


@pytest.mark.parametrize("reclaim", ["on_time", "early", "late", "never"])
def test_the_platform_announces_the_deadline_whenever_the_node_goes(
    inject: Strike, world: FakeWorld, reclaim: str
) -> None:
    inject(PreemptNode.model_validate({"notice_s": 1, "reclaim": reclaim}))

    assert world.posted == [("node-b", DEADLINE_NS)]


def test_a_false_alarm_takes_no_node(inject: Strike, world: FakeWorld) -> None:
    outcome = inject(PreemptNode(notice_s=1, reclaim="never"))

    assert outcome.status == "ok"
    assert world.done == ["notice node-b 1", "release by 99"]


def test_a_false_alarm_whose_node_dies_was_none(inject: Strike, world: FakeWorld) -> None:
    world.lost = {RANK_1.node_id}

    assert inject(PreemptNode(notice_s=1, reclaim="never")).status == "fail"


def test_a_node_whose_job_is_over_first_was_not_reclaimed(inject: Strike, world: FakeWorld) -> None:
    world.over = True

    assert inject(PreemptNode(notice_s=1, reclaim="late")).status == "fail"
    assert "lose node-b" not in world.done


@pytest.mark.parametrize(
    ("fault", "done"),
    [
        (PreemptNode(notice_s=7), ["reclaim node-b 7", "release by 99"]),
        (EvictNode(grace_s=9), ["reclaim node-b 9", "release by 99"]),
        (KillNode(), ["lose node-b"]),
    ],
    ids=str,
)
def test_where_the_nodes_have_a_platform_it_takes_them(
    inject: Strike, world: FakeWorld, fault: Fault, done: list[str]
) -> None:
    world.platform = "kubernetes"

    outcome = inject(fault)

    assert outcome == Outcome("ok", outcome.detail)
    expect_text(outcome.detail)
    assert world.done == done


def test_a_job_that_ends_before_its_platform_took_the_node_lost_none(
    inject: Strike, world: FakeWorld
) -> None:
    world.platform, world.over = "aws", True

    assert inject(PreemptNode(notice_s=7)).status == "fail"


def test_a_node_that_outlives_its_platform_was_not_lost(inject: Strike, world: FakeWorld) -> None:
    world.platform, world.hardy = "aws", True

    outcome = inject(PreemptNode(notice_s=7))

    assert outcome == Outcome("fail", outcome.detail)
    expect_text(outcome.detail)
