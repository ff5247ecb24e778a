"""The agents of one run on an existing cluster: started, renewed, read out and retired."""

import contextlib
import threading
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ray

from chaos.backends.ray.existing.agent import start_agent
from chaos.backends.ray.existing.terms import Terms
from chaos.model.event import JournalCut, Leftover
from chaos.run.apart import Copies
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory

COLLECT_S = 0.3
ANSWER_S = 10.0
LEFTOVERS_S = 10.0
PINGS = 7


class AgentPool:
    """The agents of one run, in the chaos controller's process; any thread may call it."""

    def __init__(self, directory: RunDirectory, terms: Terms) -> None:
        self.agents: dict[str, Any] = {}
        self._directory = directory
        self._terms = terms
        self._clock = SystemClock()
        self._copies: dict[str, Copies] = {}
        self._whole: set[str] = set()
        self._pids: dict[str, set[int]] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._is_over = threading.Event()
        threading.Thread(target=self._collect_on, name="collect", daemon=True).start()

    def attend(self, workers: Iterable[tuple[str, int]]) -> None:
        """Start an agent on every node that holds a worker; workers are (node, pid)."""
        for node_id, pid in workers:
            self._pids.setdefault(node_id, set()).add(pid)
            if node_id not in self.agents:
                self.agents[node_id] = start_agent(node_id, self._terms.token)

    def renew(self) -> None:
        """Renew every agent's lease."""
        for agent in list(self.agents.values()):
            agent.renew.remote()

    def collect(self, node_id: str) -> bool:
        """Fetch the run's files from a node; return whether all of them have come."""
        with self._locks[node_id]:
            try:
                copies = self._copies_of(node_id)
                while pieces := self._ask(node_id, "new_pieces", copies.known):
                    copies.take(pieces)
            except ray.exceptions.RayError:
                return False
        return True

    def is_all_there(self, node_id: str) -> None:
        """Note that nothing will be written on a node any more, and all files have come."""
        self._whole.add(node_id)

    def retire(self) -> tuple[list[Leftover], list[JournalCut]]:
        """End all agents; return the run's leftovers on their hosts, and the journals cut short."""
        self._is_over.set()
        with ThreadPoolExecutor(max_workers=32) as pool:
            ended = list(pool.map(self._retire, list(self.agents)))
        left = dict.fromkeys(what for names, _ in ended for what in names)  # two may share a host
        leftovers = [Leftover(kind="process", what=what) for what in left]
        return leftovers, [cut for _, cuts in ended for cut in cuts]

    # -- inside ------------------------------------------------------------------------------

    def _retire(self, node_id: str) -> tuple[list[str], list[JournalCut]]:
        left: list[str] = []
        with contextlib.suppress(ray.exceptions.RayError):
            left = self._ask(node_id, "end_leftovers", LEFTOVERS_S, more_s=LEFTOVERS_S)
        is_whole = self.collect(node_id) or node_id in self._whole
        with contextlib.suppress(ray.exceptions.RayError):
            self._ask(node_id, "retire")
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(self.agents[node_id])
        return left, [] if is_whole else self._cuts(node_id)

    def _collect_on(self) -> None:
        while not self._is_over.wait(COLLECT_S):
            for node_id in list(self.agents):
                if node_id in self._terms.apart and node_id not in self._whole:
                    self.collect(node_id)

    def _copies_of(self, node_id: str) -> Copies:
        if node_id not in self._copies:
            offset_ns = self._clock_offset(node_id)
            self._copies[node_id] = Copies(self._directory, node_id[:8], offset_ns=offset_ns)
        return self._copies[node_id]

    def _clock_offset(self, node_id: str) -> int:
        """Return the difference from a node's monotonic time to this one's, by the quickest call.

        The error is at most half of that call's time, and no message takes less. So a cause
        stays before its effect on another host.
        """
        ours = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        found = []
        for _ in range(PINGS):
            sent_ns = self._clock.now_ns()
            theirs_ns, boot = self._ask(node_id, "clock")
            came_ns = self._clock.now_ns()
            if boot == ours:
                return 0
            found.append((came_ns - sent_ns, (sent_ns + came_ns) // 2 - theirs_ns))
        offset_ns: int = min(found)[1]
        return offset_ns

    def _cuts(self, node_id: str) -> list[JournalCut]:
        """Return the journals that may lack their end; none if the node saw the run's files."""
        if node_id not in self._terms.apart:
            return []
        name = node_id[:8]
        begun = self._copies[node_id].sources if node_id in self._copies else frozenset()
        workers = {f"worker-{pid}-{name}" for pid in self._pids[node_id]}
        return [JournalCut(source=s, node_id=node_id) for s in sorted(begun | workers)]

    def _ask(self, node_id: str, what: str, *words: Any, more_s: float = 0.0) -> Any:  # noqa: ANN401 - whatever the agent gives
        answer = getattr(self.agents[node_id], what).remote(*words)
        return ray.get(answer, timeout=ANSWER_S + more_s)
