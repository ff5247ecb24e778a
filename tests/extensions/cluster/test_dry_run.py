"""A dry run tells who would be struck, by what leave, and that nothing was done."""

from collections.abc import Mapping

from rich.console import Console

from chaos.extensions.cluster.dry_run import build_dry_run
from chaos.plan.permissions import ClusterOverrides, NodeFacts, Permissions
from tests.plan.test_permissions import ALL, HERE, plan_of

NODES = [
    NodeFacts("head0000aa", "10.0.0.1", 0, is_head=True),
    NodeFacts("work1111bb", "10.0.0.2", 4),
    NodeFacts("mine2222cc", "10.0.0.3", 4, is_own=True),
]


def printed(
    *kinds: str,
    address: str | None = HERE,
    allowed: Permissions = ALL,
    reclaim_by: str | None = None,
    machines: Mapping[str, str] = {},
) -> str:
    plan = ClusterOverrides(address, reclaim_by=reclaim_by).apply(plan_of(*kinds, address=address))
    console = Console(width=160, record=True, file=None, quiet=False)
    with console.capture() as captured:
        console.print(build_dry_run(plan, NODES, allowed, machines))
    return captured.get()


def line_of(text: str, word: str) -> str:
    return next(line for line in text.splitlines() if word in line)


def test_every_node_is_listed_with_what_may_become_of_it() -> None:
    text = printed("kill_worker")

    assert "may have faults" in line_of(text, "10.0.0.2")
    assert "spared" in line_of(text, "head0000")
    assert "the head node is spared" in line_of(text, "head0000")
    assert "chaos itself runs on this node" in line_of(text, "10.0.0.3")
    assert text.rstrip().endswith("nothing was done")


def test_every_fault_says_whom_it_would_strike_and_what_it_needs() -> None:
    text = printed("kill_worker", "kill_node", "kill_driver")

    assert "the worker of rank 0" in line_of(text, "kill_worker")
    assert "--allow-node-loss" not in line_of(text, "kill_worker")
    assert "the node of rank 0, and all that runs on it" in line_of(text, "kill_node")
    assert "--allow-faults-on and --allow-node-loss" in line_of(text, "kill_node")
    assert "the job's own driver" in line_of(text, "kill_driver")


def test_what_is_not_allowed_strikes_nobody_and_says_why() -> None:
    text = printed("kill_node", allowed=Permissions())

    assert "none: refused" in line_of(text, "kill_node")
    assert "needs --allow-node-loss" in text
    assert f"it needs --allow-faults-on {HERE}" in text


def test_a_cluster_of_chaoss_own_needs_no_leave() -> None:
    text = printed("kill_node", "withhold_capacity", address=None)

    assert "nothing" in line_of(text, "kill_node")
    assert "nodes without workers" in line_of(text, "withhold_capacity")
    assert "a local cluster of" in text
    assert "10.0.0.2" not in text


def test_a_plan_without_faults_says_so() -> None:
    assert "no fault is planned" in printed()


def test_a_platform_takes_the_nodes_and_its_names_are_shown() -> None:
    machines = {node.node_id: f"jobs/{node.node_id}" for node in NODES}
    kinds = ("kill_node", "preempt_node", "freeze_node")

    text = printed(*kinds, reclaim_by="kubernetes:jobs", machines=machines)

    assert "kubernetes takes it" in line_of(text, "kill_node")
    assert "kubernetes takes it" in line_of(text, "preempt_node")
    assert "takes it" not in line_of(text, "freeze_node")
    assert "jobs/work1111bb" in line_of(text, "10.0.0.2")
