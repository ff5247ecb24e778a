"""The user's script is started a second time while its first start still trains."""

from pydantic import Field

from chaos.faults.base import SharedCluster, StartsScript
from chaos.faults.world import Outcome, Target, WorkerRelease, World

START_S = 60.0
# For the second driver to train or to end. One that waits, for a lock or for nodes, waits longer.
SETTLES_S = 60.0
PROOF_WITHIN_S = 5.0


class StartSecondDriver(StartsScript):
    """Start the script once more beside its driver, under the same name and in the same storage.

    So does a scheduler that submits a job twice (skypilot-org/skypilot#7168, PR #9868). Landed when
    the second driver runs. The worker is held until the second driver has made a step or has ended,
    or for 60 s. The run ends with the last of both.
    """

    ends_attempt = "perhaps"
    on_shared_cluster = SharedCluster("never", "a second driver takes room from the jobs of others")
    sentence = "the script was started a second time {place}"
    target_text = "the job's script, beside its own driver"
    starts_driver = True

    frozen_s: float | None = Field(
        default=None,
        gt=0,
        le=3600,
        description="the first driver, Ray's controller and its workers stand still "
        "(SIGSTOP) until so many seconds after the second one has made a step "
        "or has ended",
    )

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        del release  # after it, so that the first goes on beside a second that trains
        if self.frozen_s is None:
            return self._start_driver(world, target)
        try:  # from here on: it may stop some processes, and raise at another
            stopped = world.freeze_driver(within_s=PROOF_WITHIN_S)
            if stopped is None:
                return Outcome("fail", f"the first still moved after {PROOF_WITHIN_S:g} s")
            outcome = self._start_driver(world, target)
            world.wait_seconds(self.frozen_s)
        finally:
            world.thaw_driver()
        return Outcome(outcome.status, f"{outcome.detail}; {stopped} processes of the first stood")

    @staticmethod
    def _start_driver(world: World, target: Target) -> Outcome:
        pid = world.start_driver(within_s=START_S)
        if pid is None:
            return Outcome("info", f"no second driver was there after {START_S:g} s")
        outcome_text = world.wait_for_driver(pid, attempt=target.attempt, within_s=SETTLES_S)
        return Outcome(
            "ok", f"driver {pid} {outcome_text or f'had made no step after {SETTLES_S:g} s'}"
        )

    def __str__(self) -> str:
        settings = self.env_settings
        if self.frozen_s is not None:
            settings.append(f"the first frozen until {self.frozen_s:g} s later")
        return f"start_second_driver ({', '.join(settings)})" if settings else "start_second_driver"
