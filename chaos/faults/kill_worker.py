"""A worker process dies, as it does from an out-of-memory kill or a crash."""

from typing import Literal

from pydantic import Field, NonNegativeInt

from chaos.faults.world import Outcome, Release, Victim, World
from chaos.record import Record

PROOF_WITHIN_S = 15.0


class KillWorker(Record):
    """End one worker's process; landed when the process is gone.

    `via: ray` asks Ray to kill the actor (`ray.kill`) where the harness must
    not send signals itself.
    """

    signal: Literal["KILL", "TERM"] = "KILL"
    via: Literal["signal", "ray"] = "signal"
    rank: NonNegativeInt | None = Field(
        default=None, description="the worker to end; left out: the rank that the trigger names"
    )

    def strike(self, world: World, victim: Victim, release: Release) -> Outcome:
        """Kill while the worker is held, and wait for the process to end."""
        del release  # the gate opens by itself once the strike is over
        if self.via == "ray":
            world.end_worker_actor(victim)
        else:
            world.signal_worker(victim, self.signal)
        if world.worker_is_gone(victim, within_s=PROOF_WITHIN_S):
            return Outcome("ok", f"pid {victim.pid} of rank {victim.rank} is gone")
        return Outcome(
            "fail", f"pid {victim.pid} of rank {victim.rank} still runs after {PROOF_WITHIN_S:g} s"
        )

    def __str__(self) -> str:
        how = "ray.kill" if self.via == "ray" else f"SIG{self.signal}"
        return f"kill_worker ({how})"
