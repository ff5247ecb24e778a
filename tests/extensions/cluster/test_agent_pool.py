"""What agents bring, and what is said of those that can bring nothing any more; no cluster here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from chaos.extensions.cluster.existing import agent as pools
from chaos.extensions.cluster.existing.agent import AgentPool
from chaos.extensions.cluster.existing.file_pieces import collect_pieces
from chaos.extensions.cluster.existing.terms import ClusterFacts
from chaos.model.event import StepDone
from chaos.plan.permissions import InjectionGuard, Permissions
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal, read_history
from chaos.run.remote_files import unpack_files

NEAR, FAR = "near0000aa", "far11111bb"
BEHIND_NS = 5_000_000_000_000
STEP = StepDone(attempt=0, rank=1, epoch=0, step=1, losses=None, inputs=None)


class Host:
    """A node's agent, and the folder that it answers from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_lost = False
        self.left: list[str] = []
        self.asked: list[str] = []

    def answer(self, what: str, *words: Any) -> Any:
        self.asked.append(what)
        if self.is_lost:
            raise ray.exceptions.ActorDiedError
        if what == "clock":
            return SystemClock().now_ns() - BEHIND_NS, "another boot"
        if what == "new_pieces":
            return collect_pieces(self.folder, words[0])
        return self.left if what == "end_leftovers" else None


class TestedPool(AgentPool):
    """Asks hosts of these tests instead of actors."""

    __test__ = False

    def _ask(self, node_id: str, what: str, *words: Any, more_s: float = 0.0) -> Any:
        return self.agents[node_id].answer(what, *words)


@pytest.fixture
def far(tmp_path: Path) -> Host:
    return Host(unpack_files({"plan.json": b"{}"}, tmp_path / "far").path)


@pytest.fixture
def agent_pool(
    tmp_path: Path, far: Host, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[TestedPool, RunDirectory]]:
    hosts = {NEAR: Host(tmp_path / "nothing"), FAR: far}
    monkeypatch.setattr(pools, "start_agent", lambda node_id, _: hosts[node_id])
    monkeypatch.setattr(ray, "kill", lambda _: None)
    run = unpack_files({"plan.json": b"{}"}, tmp_path / "run")
    guard = InjectionGuard.from_nodes([], Permissions())
    made = TestedPool(run, ClusterFacts("tok", guard, "10.0.0.1", unshared_nodes=frozenset({FAR})))
    made.ensure_agents([(NEAR, 1), (FAR, 7)])
    yield made, run
    made._is_over.set()


def test_what_a_host_apart_wrote_is_there_at_the_end(
    agent_pool: tuple[TestedPool, RunDirectory], far: Host
) -> None:
    made, run = agent_pool
    journal = Journal(RunDirectory(far.folder).journals, "worker-7", role="worker", clock=Clock())
    journal.add(STEP)

    assert made.retire() == ([], [])

    assert [e.event for e in read_history(run.journals)][1:] == [STEP]
    assert far.asked[-1] == "retire"


def test_another_hosts_times_are_told_by_this_hosts_clock(
    agent_pool: tuple[TestedPool, RunDirectory], far: Host
) -> None:
    made, run = agent_pool
    began_ns = SystemClock().now_ns()
    journal = Journal(RunDirectory(far.folder).journals, "worker-7", role="worker", clock=Clock())
    journal.add(STEP)

    made.retire()

    assert all(e.time_ns >= began_ns - 10**9 for e in read_history(run.journals))


def test_of_a_lost_host_apart_what_had_not_come_is_marked_unknown(
    agent_pool: tuple[TestedPool, RunDirectory], far: Host
) -> None:
    made, _ = agent_pool
    far.is_lost = True

    _, cuts = made.retire()

    assert [(cut.source, cut.node_id) for cut in cuts] == [("worker-7-far11111", FAR)]


def test_a_lost_host_that_gave_its_last_word_lacks_nothing(
    agent_pool: tuple[TestedPool, RunDirectory], far: Host
) -> None:
    made, _ = agent_pool
    assert made.collect(FAR)
    made.mark_complete(FAR)
    far.is_lost = True

    assert made.retire() == ([], [])


def test_a_lost_host_that_saw_the_runs_directory_lacks_nothing(
    agent_pool: tuple[TestedPool, RunDirectory],
) -> None:
    made, _ = agent_pool
    made.agents[NEAR].is_lost = True

    assert made.retire()[1] == []


def test_what_a_run_left_on_its_hosts_is_told_once(
    agent_pool: tuple[TestedPool, RunDirectory], far: Host
) -> None:
    made, _ = agent_pool
    far.left = made.agents[NEAR].left = ["pid 9: python"]

    leftovers, _ = made.retire()

    assert [left.name for left in leftovers] == ["pid 9: python"]


class Clock(SystemClock):
    """The clock of a host that was started later."""

    def now_ns(self) -> int:
        return super().now_ns() - BEHIND_NS
