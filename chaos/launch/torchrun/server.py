"""The harness's side of the gates, for workers that one or several agents of torchrun start."""

import threading
from dataclasses import dataclass, field

from chaos.faults.world import Target
from chaos.launch.gate_server import GateServer
from chaos.launch.torchrun.rendezvous import ip_of
from chaos.launch.torchrun.settings import node_number
from chaos.launch.torchrun.world import AgentWorld
from chaos.model.event import WorkerGroupStarted, WorkerPlace
from chaos.run.controller import ChaosController
from chaos.run.journal import Journal

READY_S = 60.0  # an agent that is not ready by then is left to torchrun's own time limits


@dataclass
class _Round:
    """A round of the rendezvous: its workers so far, and the ranks that have begun the script."""

    ranks: int = 0
    workers: dict[int, Target] = field(default_factory=dict)
    there: set[int] = field(default_factory=set)
    is_known: bool = False


class RoundServer(GateServer):
    """The server of one run: what agents report of a round is one attempt.

    A round's group is known once all agents have reported their parts of it; it is launched once
    all its ranks have begun the script.
    """

    def __init__(
        self, name: str, controller: ChaosController, world: AgentWorld, journal: Journal
    ) -> None:
        self._chaos = controller
        self._nodes = world
        self._journal = journal
        self._awaited = set(world.joined_nodes())  # the nodes of the start
        self._port = 0
        self._rounds: dict[int, _Round] = {}
        self._changed = threading.Condition()
        super().__init__(name, controller, world)
        # before any process of the run is started
        self._answers["rendezvous_hosted"] = self._hosted
        self._answers["rendezvous_port"] = self._hosted_at
        self._answers["agent_ready"] = self._agent_ready
        self._answers["node_taken"] = lambda: world.agents is not None and world.agents.is_any_taken
        self._answers["part_started"] = self._part_started
        self._answers["began"] = self._began

    def _hosted(self, port: int) -> None:
        with self._changed:
            self._port = port
            self._changed.notify_all()

    def _hosted_at(self) -> int:
        """Wait for and return the port, 0 if the host does not come in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._port, timeout=READY_S)
            return self._port

    def _agent_ready(self, node_id: str) -> None:
        """Wait for the agents of the start: one that is a second ahead may begin alone."""
        with self._changed:
            self._nodes.ready.add(node_id)
            self._awaited.discard(node_id)
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._awaited, timeout=READY_S)

    def _part_started(self, attempt: int, ranks: int, workers: dict[int, Target]) -> None:
        # Each connection has a thread, so the parts of a round and the first words of its ranks
        # come in any order, a rank's before its agent's report of it. The group is passed on by the
        # thread of the last part, outside of the condition: the chaos controller has its own, and
        # a fault may be held in it. `is_known` orders the two calls: started, then launched.
        with self._changed:
            one = self._rounds.setdefault(attempt, _Round())
            one.ranks = ranks
            one.workers |= workers
            is_whole = len(one.workers) == ranks
            group = dict(sorted(one.workers.items()))
        if is_whole:
            places = tuple(map(_place, group.values()))
            self._journal.add(WorkerGroupStarted(attempt=attempt, workers=places))
            self._group_started(group)
            with self._changed:
                one.is_known = True
            self._launch(attempt)

    def _began(self, attempt: int, rank: int) -> None:
        with self._changed:
            self._rounds.setdefault(attempt, _Round()).there.add(rank)
        self._launch(attempt)

    def _launch(self, attempt: int) -> None:
        with self._changed:
            one = self._rounds[attempt]
            is_launched = one.is_known and len(one.there) == one.ranks
        if is_launched:
            self._chaos.group_launched(attempt)


def _place(worker: Target) -> WorkerPlace:
    return WorkerPlace(
        rank=worker.rank,
        pid=worker.pid,
        node_id=worker.node_id,
        node_ip=ip_of(node_number(worker.node_id)),
    )
