"""Nothing is struck on a cluster of somebody else's that was not allowed, op by op."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.faults.base import Fault
from chaos.faults.kill_worker import KillWorker
from chaos.model.fault_entry import FaultEntry
from chaos.model.plan import Plan
from chaos.model.scenario import ClusterShape, Job, Scenario
from chaos.plan.make import make_plan
from chaos.plan.permissions import (
    HEAD,
    OWN,
    UNUSED,
    ClusterOverrides,
    InjectionGuard,
    NodeFacts,
    Permissions,
    find_missing_permission,
    find_refusals,
)
from tests.accepted import expect_text
from tests.needs import needs_extension

HERE = "10.0.0.1:6379"
ALL = Permissions(faults_on=HERE, node_loss=True)
FAULTS: dict[str, dict[str, object]] = {
    "kill_worker": {},
    "pause_worker": {"for_s": 1},
    "slow_worker": {"factor": 2},
    "raise_in_worker": {},
    "kill_driver": {},
    "start_second_driver": {},
    "kill_controller": {},
    "evict_node": {},
    "kill_node": {},
    "preempt_node": {"notice_s": 1},
    "freeze_node": {"for_s": 1},
    "partition_node": {"for_s": 1},
    "withhold_capacity": {"nodes": 1},
    "return_capacity": {"nodes": 1},
}
LOSES_NODES = {"kill_node", "preempt_node", "freeze_node", "partition_node"}
NEVER = {
    "withhold_capacity",
    "return_capacity",
    "kill_controller",
    "start_second_driver",
    "evict_node",
}
ids = st.sampled_from(["a", "b", "c", "d"])
nodes = st.lists(
    st.builds(
        NodeFacts,
        node_id=ids,
        address=st.just("10.0.0.2"),
        cpus=st.sampled_from([0.0, 4.0]),
        is_head=st.booleans(),
        is_own=st.booleans(),
    ),
    unique_by=lambda node: node.node_id,
)


def plan_of(*kinds: str, address: str | None = HERE, **fields: object) -> Plan:
    entries = tuple(
        FaultEntry.model_validate(
            {"at": {"epoch": 1, "step": 1, "rank": 0}, kind: {**FAULTS[kind], **fields}}
        )
        for kind in kinds
    )
    scenario = Scenario(
        scenario="x",
        job=Job(script="train.py", workers=2),
        cluster=ClusterShape(address=address),
        faults=entries,
    )
    return make_plan(scenario, file=Path("x.chaos.yaml"), seed=0, cwd=Path("/home/me"))


def test_a_cluster_that_was_not_named_twice_is_left_alone() -> None:
    missing = find_missing_permission(plan_of(), Permissions())

    assert missing is not None
    assert "faults are not allowed on it" in missing


def test_a_permission_for_another_address_is_none_for_this() -> None:
    missing = find_missing_permission(
        plan_of(), Permissions(faults_on="10.0.0.9:6379", node_loss=True)
    )

    assert missing is not None
    assert "10.0.0.9:6379" in missing


def test_the_same_address_is_permission() -> None:
    assert find_missing_permission(plan_of(), Permissions(faults_on=HERE)) is None


def test_a_cluster_of_chaoss_own_needs_no_permission() -> None:
    plan = plan_of("kill_node", "withhold_capacity", address=None)

    assert find_missing_permission(plan, Permissions()) is None
    assert find_refusals(plan, Permissions()) == ()


@pytest.mark.parametrize("kind", FAULTS)
def test_what_costs_a_node_needs_a_word_of_its_own(kind: str) -> None:
    refused = find_refusals(plan_of(kind), Permissions(faults_on=HERE))

    assert bool(refused) is (kind in LOSES_NODES | NEVER)


@pytest.mark.parametrize("kind", FAULTS)
def test_what_takes_or_starts_foreign_nodes_is_refused_whatever_is_allowed(kind: str) -> None:
    refused = find_refusals(plan_of(kind), ALL)

    assert bool(refused) is (kind in NEVER)


def test_a_fault_that_nobody_has_thought_through_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(KillWorker, "on_shared_cluster", Fault.on_shared_cluster)

    (refused,) = find_refusals(plan_of("kill_worker"), ALL)

    assert "not been thought through" in str(refused)


def test_a_raylet_alone_is_refused_because_nobody_could_tell() -> None:
    (refused,) = find_refusals(plan_of("kill_node", raylet_only=True), ALL)

    assert "nothing shows" in str(refused)


def by(
    platform: str, kind: str, fields: Mapping[str, object] = {}, may: Permissions = ALL
) -> list[str]:
    """Return the refusals of a fault on a cluster whose nodes belong to a platform."""
    plan = plan_of(kind, address=HERE, **fields)
    plan = ClusterOverrides(HERE, reclaim_by=platform).apply(plan)
    return [refusal.reason for refusal in find_refusals(plan, may)]


@pytest.mark.parametrize("platform", ["local", "kubernetes:jobs"])
def test_a_platform_may_evict_what_chaos_must_not_signal(platform: str) -> None:
    (without,) = find_refusals(plan_of("evict_node"), ALL)

    expect_text(without.reason)
    assert by(platform, "evict_node") == []
    assert by(platform, "evict_node", may=Permissions(HERE))[0].startswith("needs --allow-node")


def test_a_cloud_evicts_no_pod() -> None:
    expect_text(by("aws:EXT1", "evict_node")[0])
    assert by("aws:EXT1", "kill_node") == by("aws:EXT1", "preempt_node") == []


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("preempt_node", {"reclaim": "late"}),
        ("preempt_node", {"reclaim": "never"}),
        ("evict_node", {"hook_s": 3}),
        ("evict_node", {"again_after_s": 3}),
    ],
)
def test_what_only_chaos_does_is_refused_of_a_platform(
    kind: str, fields: dict[str, object]
) -> None:
    assert "a platform" in by("local", kind, fields)[0]


def test_a_platform_goes_with_the_address_alone() -> None:
    plan = ClusterOverrides(HERE, reclaim_by="local").apply(plan_of("kill_node"))
    embedded = plan.model_copy(update={"backend": "fork"})

    assert plan.shape.reclaim_by == "local"
    assert ClusterOverrides(HERE, "/mnt").apply(plan).shape.reclaim_by == "local"
    assert ClusterOverrides().apply(embedded).shape.reclaim_by is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kubernets:jobs", "did you mean kubernetes"),
        ("slurm", "known: local, kubernetes"),
        ("kubernetes", "written kubernetes:NAMESPACE"),
        ("kubernetes:a/b", "written kubernetes:NAMESPACE"),
        ("google:project", "written google:PROJECT/ZONE"),
        ("azure:/group", "written azure:SUBSCRIPTION/RESOURCE_GROUP"),
        ("local:here", "written local, "),
    ],
)
def test_a_platform_that_is_none_is_answered_with_one(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ClusterShape(address=HERE, reclaim_by=text)


def test_a_refusal_names_the_fault_and_what_would_allow_it() -> None:
    (refused,) = find_refusals(plan_of("kill_worker", "kill_node"), Permissions(faults_on=HERE))

    expect_text(str(refused))


@given(nodes, ids, st.sets(ids), st.booleans(), st.booleans())
def test_only_a_node_that_holds_a_worker_and_is_nobody_elses_is_struck(
    known: list[NodeFacts], struck: str, used: set[str], node_loss: bool, costs_node: bool
) -> None:
    guard = InjectionGuard.from_nodes(known, Permissions(faults_on=HERE, node_loss=node_loss))

    refused = guard.find_refusal(struck, used=used, costs_node=costs_node)

    protected = {node.node_id for node in known if node.is_head or node.is_own}
    may_be = struck in used and struck not in protected and (node_loss or not costs_node)
    assert (refused is None) is may_be


def test_a_refused_strike_says_whose_node_it_was() -> None:
    guard = InjectionGuard.from_nodes(
        [NodeFacts("h", "10.0.0.1", 4, is_head=True), NodeFacts("m", "10.0.0.2", 4, is_own=True)],
        ALL,
    )

    told = [guard.find_refusal(node, used={"h", "m"}) for node in ("h", "m", "w")]
    assert told == [HEAD, OWN, UNUSED]


@pytest.mark.parametrize(
    ("facts", "standing"),
    [
        (NodeFacts("h", "a", 4, is_head=True), "spared"),
        (NodeFacts("m", "a", 4, is_own=True), "spared"),
        (NodeFacts("w", "a", 4), "may have faults"),
        (NodeFacts("z", "a", 0), "holds no worker"),
    ],
)
def test_what_may_become_of_a_node_is_known_before_a_run(facts: NodeFacts, standing: str) -> None:
    assert facts.standing == standing


def in_a_queue(kind: str, **settings: object) -> Plan:
    entry = {"at": {"epoch": 1, "step": 1, "rank": 0}, kind: settings}
    scenario = Scenario(
        scenario="x",
        job=Job(launcher="slurm", script="train.sbatch", workers=2),
        cluster=ClusterShape(address=HERE, nodes=2),
        faults=(FaultEntry.model_validate(entry),),
    )
    return make_plan(scenario, file=Path("x.chaos.yaml"), seed=0, cwd=Path("/work"))


@needs_extension("slurm")
def test_a_queue_of_others_has_to_be_named_twice_as_well() -> None:
    plan = in_a_queue("requeue_job")

    assert find_missing_permission(plan, Permissions()) is not None
    assert find_missing_permission(plan, ALL) is None


@needs_extension("slurm")
@pytest.mark.parametrize("kind", ["requeue_job", "signal_job", "kill_worker", "raise_in_worker"])
def test_a_user_may_do_to_his_own_job_what_slurm_lets_him(kind: str) -> None:
    assert not find_refusals(in_a_queue(kind), Permissions(faults_on=HERE))


@needs_extension("slurm")
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("preempt_node", {"notice_s": 0}),
        ("kill_node", {}),
        ("return_capacity", {"nodes": 1}),
        ("suspend_job", {}),
        ("reach_time_limit", {}),
        ("restart_slurmctld", {}),
        ("exhaust_memory", {}),
    ],
)
def test_what_is_an_operators_or_takes_from_others_is_refused_there(
    kind: str, settings: dict[str, object]
) -> None:
    [refusal] = find_refusals(in_a_queue(kind, **settings), ALL)

    expect_text(refusal.reason)


@needs_extension("slurm")
def test_the_address_of_the_command_line_is_a_slurms_as_well() -> None:
    overrides = ClusterOverrides("head:6817", storage="/shared")

    shape = overrides.apply(in_a_queue("requeue_job")).shape

    assert (shape.address, shape.storage) == ("head:6817", None)
