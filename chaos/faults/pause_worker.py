"""A worker stands still and lives: a machine that swaps, a debugger, a stuck volume."""

from pydantic import Field, NonNegativeInt

from chaos.faults.base import SAFE, Fault, SecondsRange
from chaos.faults.world import Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 5.0
# Eleven days: longer than any run, which ends the wait.
FOR_EVER_S = 1e6


class PauseWorker(Fault):
    """Stop the worker's process (SIGSTOP), and let it go on later (SIGCONT).

    Landed when the process is stopped. Healed after `for_s` seconds, and at the end of the run in
    any case.
    """

    family = "worker"
    ends_attempt = "perhaps"
    on_shared_cluster = SAFE
    needs = None
    at_random = ({"for_s": SecondsRange(0.1, 0.5)},)
    sentence = "rank {rank} was paused {place}"
    stops_progress = True

    for_s: float | None = Field(
        default=None, gt=0, le=3600, description="left out: until the end of the run"
    )
    rank: NonNegativeInt | None = Field(
        default=None, description="the worker to stop; left out: the trigger's rank"
    )

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """Stop the process while it is held; the gate opens on a stopped process."""
        del release
        world.signal_worker(target, "STOP")
        name = f"pid {target.pid} of rank {target.rank}"
        if world.await_worker_stop(target, within_s=PROOF_WITHIN_S):
            return Outcome("ok", f"{name} is stopped")
        return Outcome("fail", f"{name} is not stopped after {PROOF_WITHIN_S:g} s")

    def heal(self, world: World, target: Target) -> str:
        waited = world.wait_seconds(FOR_EVER_S if self.for_s is None else self.for_s)
        time_text = f"after {self.for_s:g} s" if waited and self.for_s else "at the end of the run"
        try:
            world.signal_worker(target, "CONT")
        except ProcessLookupError:
            return f"pid {target.pid} had ended {time_text}; there was nothing to heal"
        return f"pid {target.pid} goes on {time_text}"

    def __str__(self) -> str:
        return f"pause_worker ({'for ever' if self.for_s is None else f'{self.for_s:g} s'})"
