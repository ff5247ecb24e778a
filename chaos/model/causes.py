"""The errors of ranks that failed, without those that ended because another rank had."""

import re
from collections.abc import Mapping

# Torchrun's agent ends the other workers of a round in which one fails (torch 2.13).
ENDED_WITH_ANOTHER = "ended by SIGTERM"
# The errors that collectives raise in the peers of a lost rank: gloo, NCCL, torch's store, rabit,
# LightGBM's sockets, TensorFlow, JAX.
PEER_WAS_LOST = (
    r"connection|by peer|broken pipe|\bsocket|timed? ?out|timeout|got 0 bytes|remote process exited"
    r"|gloo|nccl|rabit|collective|DistNetworkError|DistStoreError|DistBackendError"
    r"|heartbeat|unavailable|deadline.exceeded|AbortedError|CancelledError"
)
# Ray 2.60's words for the end of a worker's process.
PROCESS_ENDED = (
    r"ActorDied|ActorError|actor (?:is dead|died)|WorkerDied|WorkerCrashed|NodeDied|OwnerDied"
    r"|process has died|HealthCheck"
)
_FOLLOWS = re.compile(PEER_WAS_LOST, re.IGNORECASE)


def causes(errors: Mapping[int, str]) -> dict[int, str]:
    """Return the errors by rank that are no consequence of another one; all, where each may be."""
    in_order = dict(sorted(errors.items()))
    ended = {rank: error for rank, error in in_order.items() if error != ENDED_WITH_ANOTHER}
    own = {rank: error for rank, error in ended.items() if not _FOLLOWS.search(error)}
    return own or ended or in_order


def is_own_error(error: str) -> bool:
    """Return whether an error is an exception that neither a signal nor a lost peer explains."""
    if _FOLLOWS.search(error) or re.search(PROCESS_ENDED, error, re.IGNORECASE):
        return False
    return not error.startswith(("ended by ", "exit code "))
