"""A platform takes the nodes of a running cluster in place of chaos; no cluster here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.extensions.cluster.existing import world as worlds
from chaos.extensions.cluster.existing.machines import Machines
from chaos.extensions.cluster.existing.terms import ClusterFacts
from chaos.extensions.cluster.existing.world import ExistingWorld
from chaos.extensions.cluster.reclaim.pods import KubernetesPods
from chaos.faults.world import RefusedError, Target
from chaos.launch.ray import compat
from chaos.model.event import NodeReclaimed
from chaos.plan.permissions import InjectionGuard, NodeFacts, Permissions
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import SystemClock
from chaos.run.journal import Journal, read_history
from tests.extensions.cluster.fakes import ADDRESS, Core, Platform

NODE, HEAD = "node1111aa", "head0000aa"
RANK_0 = Target(attempt=0, rank=0, pid=7, node_id=NODE)
ELSEWHERE = "10.0.0.99"


class Releases:
    """The deadlines with which a held worker was released."""

    def __init__(self) -> None:
        self.deadlines: list[int | None] = []

    def __call__(self, deadline_ns: int | None = None, *, order: object = None) -> None:
        if deadline_ns is not None or not self.deadlines:
            self.deadlines.append(deadline_ns)


class Pool:
    """Agents that have nothing to bring."""

    def __init__(self) -> None:
        self.agents: dict[str, Any] = {}

    def ensure_agents(self, workers: object) -> None:
        """Start none."""

    def collect(self, node_id: str) -> bool:
        return bool(node_id)


class TestedWorld(ExistingWorld):
    """Its one node dies with its pod, or at the `looks`-th look at it."""

    __test__ = False
    platform: Platform
    looks = 3

    def _is_alive(self, node_id: str) -> bool:
        del node_id
        self.looks -= 1
        if self.looks == 0:
            self.platform.pass_time()
        return self.platform.is_there


Made = Callable[..., TestedWorld]


@pytest.fixture
def platform() -> Platform:
    return Platform("jobs/worker-0")


@pytest.fixture
def journals(tmp_path: Path) -> Path:
    folder = tmp_path / "journals"
    folder.mkdir()
    return folder


@pytest.fixture
def world(platform: Platform, journals: Path, monkeypatch: pytest.MonkeyPatch) -> TestedWorld:
    monkeypatch.setattr(worlds, "POLL_S", 0.001)
    monkeypatch.setattr(worlds, "HEARD_S", 0.0)
    monkeypatch.setattr(compat, "draining_nodes", dict)
    known = known_at(ADDRESS)
    monkeypatch.setattr(worlds, "list_nodes", lambda: known)
    guard = InjectionGuard.from_nodes(known, Permissions("h:1", node_loss=True))
    journal = Journal(journals, "chaos", role="chaos", clock=SystemClock())
    machines = Machines(KubernetesPods(Core(platform), "jobs"), journal, SystemClock())
    pool: Any = Pool()
    terms = ClusterFacts("tok", guard, "10.0.0.1", unshared_nodes=frozenset())
    made = TestedWorld("h:1", pool, terms, ArmedFaults(journals), machines)
    made.platform = platform
    made.learn_group({0: RANK_0})
    return made


def known_at(address: str) -> list[NodeFacts]:
    head = NodeFacts(HEAD, "10.0.0.1", 0, is_head=True)
    return [head, NodeFacts(NODE, address, 1, hostname="worker-0")]


def stages(journals: Path) -> list[str]:
    return [e.stage for _, e in read_history(journals).select_events(NodeReclaimed)]


def test_a_loss_that_nothing_announces_to_the_cluster_lets_the_worker_go_on(
    world: TestedWorld, platform: Platform, journals: Path
) -> None:
    release = Releases()

    assert world.reclaim_node(NODE, notice_s=9.5, release=release)

    assert platform.calls == ["evict 10"]
    assert release.deadlines == [None]
    assert stages(journals) == ["announced", "gone"]
    assert world.await_worker_end(RANK_0, within_s=0)
    by = world.describe_taker(NODE)
    assert by is not None
    assert by.startswith("kubernetes took it as jobs/worker-0")
    assert "against a fake alone" in by


def test_a_drain_that_the_cluster_announces_is_the_notice(
    world: TestedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, clock = Releases(), SystemClock()
    due_ms = clock.wall_ns() // 1_000_000 + 30_000
    monkeypatch.setattr(compat, "draining_nodes", lambda: {NODE: due_ms} if world.looks < 2 else {})

    assert world.reclaim_node(NODE, notice_s=9, release=release)

    first, deadline_ns = release.deadlines
    assert first is None
    assert deadline_ns is not None
    assert 29e9 < deadline_ns - clock.now_ns() < 31e9


def test_a_run_that_ends_first_does_not_wait_for_its_platform(
    world: TestedWorld, journals: Path
) -> None:
    world.looks = 10**6
    world.end()

    assert world.reclaim_node(NODE, notice_s=9, release=Releases()) is False
    assert stages(journals) == ["announced"]


def test_a_node_that_is_killed_is_taken_at_once(
    world: TestedWorld, platform: Platform, journals: Path
) -> None:
    world.lose_node(NODE)

    assert platform.calls == ["delete 1"]
    assert stages(journals) == ["taken"]
    assert world.await_node_death(NODE, within_s=0)


@pytest.mark.parametrize(
    "ask",
    [
        lambda world, node: world.reclaim_node(node, notice_s=1, release=Releases()),
        lambda world, node: world.lose_node(node),
    ],
    ids=["announce", "take"],
)
def test_the_platform_is_not_asked_for_what_the_guard_refuses(
    world: TestedWorld,
    platform: Platform,
    ask: Callable[[TestedWorld, str], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for node in (HEAD, "unused22cc"):
        with pytest.raises(RefusedError):
            ask(world, node)
    monkeypatch.setattr(worlds, "list_nodes", lambda: known_at(ELSEWHERE))
    with pytest.raises(RefusedError, match=f"kubernetes has no node at {ELSEWHERE}"):
        ask(world, NODE)

    assert platform.calls == []
    assert world.describe_taker(NODE) is None


def test_without_rights_nothing_is_done_and_nothing_is_recorded(
    world: TestedWorld, platform: Platform, journals: Path
) -> None:
    platform.is_closed = True

    with pytest.raises(RefusedError, match="kubernetes does not allow it"):
        world.lose_node(NODE)

    assert platform.calls == []
    assert stages(journals) == []
