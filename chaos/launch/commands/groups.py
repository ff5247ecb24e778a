"""The harness's side of the gates, for ranks that are reported one by one, or node by node."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.faults.world import Target
from chaos.launch.gate_server import GateServer
from chaos.launch.process_world import ProcessWorld
from chaos.model.event import WorkerGroupStarted, WorkerPlace
from chaos.run.controller import ChaosController
from chaos.run.journal import Journal


@dataclass
class _Group:
    """An attempt's workers so far, and the ranks that have begun the script."""

    ranks: int = 0
    workers: dict[int, Target] = field(default_factory=dict)
    begun_ranks: set[int] = field(default_factory=set)
    is_known: bool = False


class GroupServer(GateServer):
    """The server of one run: what is reported of an attempt, in parts, is one group.

    A group is known once all its parts were reported; it is launched once all its ranks have begun
    the script.
    """

    def __init__(
        self, name: str, controller: ChaosController, world: ProcessWorld, journal: Journal
    ) -> None:
        self._chaos = controller
        self._journal = journal
        self._groups: dict[int, _Group] = {}
        # The last attempt of each start of a job, where more than one may be in a start.
        self._latest_attempt: dict[int, int] = {}
        self._changed = threading.Condition()
        super().__init__(name, controller, world)
        # before any process of the run is started
        self._answers["attempt_of"] = self._number_attempt
        self._answers["part_started"] = self._part_started
        self._answers["began"] = self._rank_began

    def find_ip(self, node_id: str) -> str:
        """Return the address of a node."""
        del node_id
        return "127.0.0.1"

    def _number_attempt(self, start: int, rank: int, pid: int) -> int:
        """Return an attempt's number: they are counted in the order in which they begin.

        In one start torchrun may begin several rounds. Each agent counts those that it has spent a
        restart on, so the counts of two nodes differ: a round is known by a rank that comes again.
        """
        with self._changed:
            attempt = self._latest_attempt.get(start)
            group = _Group() if attempt is None else self._groups.setdefault(attempt, _Group())
            earlier_worker = group.workers.get(rank)
            is_repeated = (
                earlier_worker is not None
                and earlier_worker.pid != pid
                and len(group.workers) == group.ranks
            )
            if attempt is None or is_repeated:
                attempt = self._latest_attempt[start] = 1 + max(
                    self._latest_attempt.values(), default=-1
                )
            return attempt

    def _part_started(self, attempt: int, ranks: int, workers: Mapping[int, Target]) -> None:
        # Each connection has a thread, so the parts of a group and the first words of its ranks
        # come in any order, a rank's before its agent's report of it. The group is passed on by the
        # thread of the last part, outside of the condition: the chaos controller has its own, and
        # a fault may be held in it. `is_known` orders the two calls: started, then launched.
        with self._changed:
            known_group = self._groups.setdefault(attempt, _Group())
            known_group.ranks = ranks
            known_group.workers |= workers
            is_complete = len(known_group.workers) == ranks
            group = dict(sorted(known_group.workers.items()))
        if is_complete:
            worker_locations = tuple(map(self._locate_worker, group.values()))
            self._journal.add(WorkerGroupStarted(attempt=attempt, workers=worker_locations))
            self._group_started(group)
            with self._changed:
                known_group.is_known = True
            self._launch(attempt)

    def _rank_began(self, attempt: int, rank: int) -> None:
        with self._changed:
            self._groups.setdefault(attempt, _Group()).begun_ranks.add(rank)
        self._launch(attempt)

    def _launch(self, attempt: int) -> None:
        with self._changed:
            group = self._groups[attempt]
            is_launched = group.is_known and len(group.begun_ranks) == group.ranks
        if is_launched:
            self._chaos.group_launched(attempt)

    def _locate_worker(self, worker: Target) -> WorkerPlace:
        return WorkerPlace(
            rank=worker.rank,
            pid=worker.pid,
            node_id=worker.node_id,
            node_ip=self.find_ip(worker.node_id),
        )
