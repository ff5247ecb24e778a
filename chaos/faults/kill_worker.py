"""A worker process dies, as it does from an out-of-memory kill or a crash."""

from typing import Literal, Self

from pydantic import Field, NonNegativeInt, model_validator

from chaos.faults.base import SAFE, Fault
from chaos.faults.world import Outcome, Release, Target, World

PROOF_WITHIN_S = 15.0


class KillWorker(Fault):
    """End one worker's process, or several at once; landed when each is gone.

    With `via: ray` Ray kills the actor (`ray.kill`), for a harness that must not send signals
    itself.
    """

    family = "worker"
    ends_attempt = "always"
    on_shared_cluster = SAFE
    at_random = ({}, {"signal": "TERM"})
    sentence = "rank {rank} was killed {place}"

    signal: Literal["KILL", "TERM"] = "KILL"
    grace_s: float | None = Field(
        default=None,
        gt=0,
        le=120,
        description="with `signal: TERM`: a worker that has not ended by then is killed",
    )
    via: Literal["signal", "ray"] = "signal"
    rank: NonNegativeInt | None = Field(
        default=None, description="the worker to end; left out: the rank that the trigger names"
    )
    ranks: Literal["one", "all"] = Field(
        default="one", description="`all`: every worker of the group, in one instant"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.grace_s is not None and (self.signal != "TERM" or self.via != "signal"):
            raise ValueError("grace_s goes with `signal: TERM`")
        if self.ranks == "all" and self.rank is not None:
            raise ValueError("kill_worker has either rank or `ranks: all`")
        return self

    @property
    def on_torchrun(self) -> bool:  # type: ignore[override]
        """Whether it is a signal: only Ray has actors to end."""
        return self.via == "signal"

    @property
    def takes_others(self) -> bool:
        """Whether the whole group goes."""
        return self.ranks == "all"

    def inject(self, world: World, target: Target, release: Release) -> Outcome:
        """Kill while the worker is held, and wait for the processes to end."""
        del release  # the gate opens by itself once this returns
        others = world.group().values() if self.ranks == "all" else ()
        targets = (target, *(v for v in others if v.pid != target.pid))
        for one in targets:
            self._kill(world, one)
        outcomes = [self._proof(world, one) for one in targets]
        bad = [outcome for outcome in outcomes if outcome.status != "ok"]
        return bad[0] if bad else Outcome("ok", ", ".join(o.detail for o in outcomes))

    def _kill(self, world: World, target: Target) -> None:
        if self.via == "ray":
            world.end_worker_actor(target)
        else:
            world.signal_worker(target, self.signal)

    def _proof(self, world: World, target: Target) -> Outcome:
        name = f"pid {target.pid} of rank {target.rank}"
        if self.grace_s is None:
            if world.worker_is_gone(target, within_s=PROOF_WITHIN_S):
                return Outcome("ok", f"{name} is gone")
            return Outcome("fail", f"{name} still runs after {PROOF_WITHIN_S:g} s")
        if world.worker_is_gone(target, within_s=self.grace_s):
            return Outcome("ok", f"{name} is gone: SIGTERM ended it")
        return self._kill_after_grace(world, target, name)

    def _kill_after_grace(self, world: World, target: Target, name: str) -> Outcome:
        try:
            world.signal_worker(target, "KILL")
        except ProcessLookupError:  # it ended between our last look and the signal
            return Outcome("ok", f"{name} is gone: SIGTERM ended it")
        if world.worker_is_gone(target, within_s=PROOF_WITHIN_S):
            waited = f"it outlived SIGTERM by {self.grace_s:g} s, and SIGKILL ended it"
            return Outcome("ok", f"{name} is gone: {waited}")
        return Outcome("fail", f"{name} still runs after SIGTERM and SIGKILL")

    def __str__(self) -> str:
        how = "ray.kill" if self.via == "ray" else f"SIG{self.signal}"
        grace = "" if self.grace_s is None else f", SIGKILL after {self.grace_s:g} s"
        return f"kill_worker ({how}{grace}{', all ranks' if self.ranks == 'all' else ''})"
