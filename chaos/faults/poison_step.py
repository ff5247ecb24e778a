"""A step that no attempt survives: a sample that crashes the process, a bug at one place."""

from typing import ClassVar, Literal

from pydantic import Field

from chaos.faults.base import OrderedFault
from chaos.faults.kill_worker import KillWorker
from chaos.faults.raise_in_worker import RaiseInWorker
from chaos.faults.world import Outcome, Target, WorkerRelease, World


class PoisonStep(OrderedFault):
    """Kill every attempt at the same place; a retry cannot help.

    The job must stop once its retry budget is spent. Each injection has the proof of its kind: the
    process is gone, or the failure that names the exception is recorded.
    """

    ends_attempt = "always"
    sentence = "rank {rank} met a poisoned step {place}"
    is_repeated: ClassVar[bool] = True

    by: Literal["kill", "raise"] = Field(
        default="kill", description="the process is killed, or the train function raises"
    )

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        if self.by == "kill":
            return KillWorker().inject(world, target, release)
        return RaiseInWorker(message="a poisoned step").inject(world, target, release)

    def __str__(self) -> str:
        return f"poison_step ({self.by})"
