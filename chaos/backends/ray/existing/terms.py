"""What the chaos controller is told of a cluster that is not ours."""

from dataclasses import dataclass

from chaos.plan.permitted import Guard

LEASE_S = 15.0
RENEW_S = 3.0


@dataclass(frozen=True)
class Terms:
    """`own`: the address of chaos's own node; `apart`: the nodes that do not see the run's files.

    A run's directory is named by its token there.
    """

    token: str
    guard: Guard
    own: str
    apart: frozenset[str]
