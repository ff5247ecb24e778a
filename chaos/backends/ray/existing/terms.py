"""The facts about an existing cluster that the chaos controller needs."""

from dataclasses import dataclass

from chaos.plan.permitted import Guard

LEASE_S = 15.0
RENEW_S = 3.0


@dataclass(frozen=True)
class Terms:
    """The facts about a cluster, for one run.

    `own` is the address of chaos's own node; `apart` are the nodes that do not see the run's
    files, where the run's directory is named by `token`.
    """

    token: str
    guard: Guard
    own: str
    apart: frozenset[str]
