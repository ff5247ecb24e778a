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
    there: set[int] = field(default_factory=set)
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
        self._last: dict[int, int] = {}
        self._changed = threading.Condition()
        super().__init__(name, controller, world)
        # before any process of the run is started
        self._answers["attempt_of"] = self._attempt_of
        self._answers["part_started"] = self._part_started
        self._answers["began"] = self._began

    def ip_of(self, node_id: str) -> str:
        """Return the address of a node."""
        del node_id
        return "127.0.0.1"

    def _attempt_of(self, start: int, rank: int, pid: int) -> int:
        """Return an attempt's number: they are counted in the order in which they begin.

        In one start torchrun may begin several rounds. Each agent counts those that it has spent a
        restart on, so the counts of two nodes differ: a round is known by a rank that comes again.
        """
        with self._changed:
            last = self._last.get(start)
            one = _Group() if last is None else self._groups.setdefault(last, _Group())
            held = one.workers.get(rank)
            comes_again = held is not None and held.pid != pid and len(one.workers) == one.ranks
            if last is None or comes_again:
                last = self._last[start] = 1 + max(self._last.values(), default=-1)
            return last

    def _part_started(self, attempt: int, ranks: int, workers: Mapping[int, Target]) -> None:
        # Each connection has a thread, so the parts of a group and the first words of its ranks
        # come in any order, a rank's before its agent's report of it. The group is passed on by the
        # thread of the last part, outside of the condition: the chaos controller has its own, and
        # a fault may be held in it. `is_known` orders the two calls: started, then launched.
        with self._changed:
            one = self._groups.setdefault(attempt, _Group())
            one.ranks = ranks
            one.workers |= workers
            is_whole = len(one.workers) == ranks
            group = dict(sorted(one.workers.items()))
        if is_whole:
            places = tuple(map(self._place, group.values()))
            self._journal.add(WorkerGroupStarted(attempt=attempt, workers=places))
            self._group_started(group)
            with self._changed:
                one.is_known = True
            self._launch(attempt)

    def _began(self, attempt: int, rank: int) -> None:
        with self._changed:
            self._groups.setdefault(attempt, _Group()).there.add(rank)
        self._launch(attempt)

    def _launch(self, attempt: int) -> None:
        with self._changed:
            one = self._groups[attempt]
            is_launched = one.is_known and len(one.there) == one.ranks
        if is_launched:
            self._chaos.group_launched(attempt)

    def _place(self, worker: Target) -> WorkerPlace:
        return WorkerPlace(
            rank=worker.rank,
            pid=worker.pid,
            node_id=worker.node_id,
            node_ip=self.ip_of(worker.node_id),
        )
