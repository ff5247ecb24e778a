"""The facts about an existing cluster for one run, and the leases of its agents."""

from dataclasses import dataclass

from chaos.plan.permissions import InjectionGuard
from chaos.run.clock import Clock, elapsed_seconds

# After it an agent gives up: it lets stopped processes go on, and removes the run's files. Several
# renewals may be lost before.
LEASE_S = 15.0
RENEW_S = 3.0


@dataclass(frozen=True)
class ClusterFacts:
    """The facts about a cluster, for one run."""

    #: the name of the run's directory on the nodes that do not see it
    token: str
    guard: InjectionGuard
    #: the address of chaos's own node
    own_address: str
    #: the nodes that do not see the run's files
    unshared_nodes: frozenset[str]
    #: the platform that takes nodes, if it is not chaos
    reclaim_by: str | None = None


class Lease:
    """A permission for so many seconds after it was made or last renewed."""

    def __init__(self, for_s: float, clock: Clock) -> None:
        self._for_s = for_s
        self._clock = clock
        self._since_ns = clock.now_ns()

    def renew(self) -> None:
        self._since_ns = self._clock.now_ns()

    def extend(self, by_s: float) -> None:
        self._since_ns = self._clock.now_ns() + int(by_s * 1e9)

    @property
    def has_lapsed(self) -> bool:
        return elapsed_seconds(self._since_ns, self._clock) > self._for_s
