"""Can the error that ended a run have come of what was done to it?"""

import re
from collections.abc import Mapping

from chaos.check.trial import Trial
from chaos.model.event import FailureDecided, FitRaised

# What the peers of a rank that has gone are told by their collectives (gloo, NCCL, torch's store,
# rabit, LightGBM's sockets, TensorFlow, JAX), Ray's own words for a loss, and ours.
_CONSEQUENCES = re.compile(
    r"connection|by peer|broken pipe|\bsocket|timed? ?out|timeout|got 0 bytes|remote process exited"
    r"|gloo|nccl|rabit|collective|DistNetworkError|DistStoreError|DistBackendError"
    r"|heartbeat|unavailable|deadline.exceeded|AbortedError|CancelledError"
    r"|ActorDied|ActorError|actor (?:is dead|died)|WorkerDied|WorkerCrashed|NodeDied|OwnerDied"
    r"|process has died|HealthCheck|WorkerGroupStartup|OutOfMemory|out of memory|preempt"
    r"|InjectedError",
    re.IGNORECASE,
)


def foreign_cause(trial: Trial) -> str | None:
    """Say that the error which ended the run fits nothing that was done to it, None if it may.

    It fits where it is a struck rank's, or one that the others are left with.
    In Ray 2.60 the map often holds the survivor's error alone, so that the
    rank proves nothing. Unknown and not wrong: a job may put its peers' loss
    into words of its own, and an error of its own may come in between. What
    storage has spoilt may come out as any error.
    """
    raised, strikes = trial.run.ending.raised, [s for s in trial.strikes if s.invoked]
    if raised is None or not strikes or any(strike.is_in_storage for strike in strikes):
        return None
    decided = [e for _, e in trial.history.of(FailureDecided) if e.decision == "RAISE"]
    causes = _causes(raised[1], decided[-1] if decided else None)
    attempt = decided[-1].attempt if decided else None
    struck = {s.rank for s in strikes if attempt in s.hits}
    if any(rank in struck or _CONSEQUENCES.search(text) for rank, text in causes.items()):
        return None
    rank, text = next(iter(causes.items()))
    who = "" if rank is None else f"rank {rank} had "
    faults = " and ".join(dict.fromkeys(str(strike.op) for strike in strikes))
    return (
        f"fit() raised {raised[1].error}: {who}{text.strip()[:200]}; whether that came of "
        f"{faults} is not known"
    )


def _causes(raised: FitRaised, decided: FailureDecided | None) -> Mapping[int | None, str]:
    """Give the errors by rank; where Ray tells of no rank, what it tells."""
    if decided is not None and decided.errors:
        return dict(sorted(decided.errors.items()))
    told = "" if decided is None else decided.error
    return {None: f"{told} {raised.error} {raised.message}"}
