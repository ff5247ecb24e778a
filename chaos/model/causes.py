"""The errors of ranks that failed, without those that ended because another rank had."""

import re
from collections.abc import Mapping

from chaos.model.process_end import describe_signal_end, is_process_end

# Torchrun's agent ends the other workers of a round in which one fails (torch 2.13).
ENDED_WITH_ANOTHER = describe_signal_end("SIGTERM")
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
_PEER_LOSS_PATTERN = re.compile(PEER_WAS_LOST, re.IGNORECASE)


def find_causes(errors: Mapping[int, str]) -> dict[int, str]:
    """Return the errors by rank that are no consequence of another one; all, where each may be."""
    sorted_errors = dict(sorted(errors.items()))
    remaining_errors = {
        rank: error for rank, error in sorted_errors.items() if error != ENDED_WITH_ANOTHER
    }
    own_errors = {
        rank: error
        for rank, error in remaining_errors.items()
        if not _PEER_LOSS_PATTERN.search(error)
    }
    return own_errors or remaining_errors or sorted_errors


def is_own_error(error: str) -> bool:
    """Return whether an error is an exception that neither a signal nor a lost peer explains."""
    if _PEER_LOSS_PATTERN.search(error) or re.search(PROCESS_ENDED, error, re.IGNORECASE):
        return False
    return not is_process_end(error)
