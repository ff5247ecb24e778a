"""The terms of a run on an existing cluster, as the core carries them out."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chaos.extensions.cluster.existing.agent import AgentPool
from chaos.extensions.cluster.existing.machines import GONE_WITHIN_S, open_machines
from chaos.extensions.cluster.existing.terms import RENEW_S, ClusterFacts
from chaos.extensions.cluster.existing.world import ExistingWorld
from chaos.launch.ray.ports import RunTerms
from chaos.run.armed_faults import ArmedFaults
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal


@dataclass(frozen=True)
class ExistingTerms(RunTerms):
    """The terms of one run by the facts about its cluster."""

    facts: ClusterFacts

    @property
    def fault_limit_s(self) -> float:
        return 0.0 if self.facts.reclaim_by is None else GONE_WITHIN_S

    def open_world(
        self, address: str, directory: RunDirectory, armed: ArmedFaults, journal: Journal
    ) -> ExistingWorld:
        agent_pool = AgentPool(directory, self.facts)
        machines = open_machines(self.facts, journal)
        return ExistingWorld(address, agent_pool, self.facts, armed, machines)

    @contextlib.contextmanager
    def renew_leases(self, actor: Any) -> Iterator[None]:  # a handle
        """Renew the leases of a run's agents in a thread, which ends with the harness's process."""
        is_over = threading.Event()

        def renew() -> None:
            while not is_over.wait(RENEW_S):
                actor.ask.remote("renew_agents")

        thread = threading.Thread(target=renew, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join(RENEW_S)
