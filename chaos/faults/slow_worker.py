"""One worker falls behind: a hot machine, a noisy neighbour, a slow disk."""

from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from chaos.faults.base import OrderedFault, SecondsRange
from chaos.faults.order import Slow
from chaos.faults.world import Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 60.0


class SlowWorker(OrderedFault):
    """Make every step of the worker longer, from the place on, until its attempt ends.

    Landed when the worker has made a step that was delayed. No attempt ends by it, and nothing has
    to be healed.
    """

    ends_attempt = "never"
    at_random = ({"delay_s": SecondsRange(0.01, 0.05), "steps": 5},)
    sentence = "rank {rank} was slowed down {place}"

    factor: float | None = Field(
        default=None, gt=1, le=1000, description="a step takes so many times as long"
    )
    delay_s: float | None = Field(
        default=None, gt=0, le=600, description="a step takes so many seconds more"
    )
    steps: PositiveInt | None = Field(
        default=None, description="how many steps; left out: to the end of the attempt"
    )
    ranks: Literal["one", "all"] = Field(
        default="one", description="`all`: every rank, from the same place on"
    )

    @model_validator(mode="after")
    def _says_how_slow(self) -> Self:
        if (self.factor is None) == (self.delay_s is None):
            raise ValueError("slow_worker needs either factor or delay_s")
        return self

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        order = Slow(delay_s=self.delay_s, factor=self.factor, steps=self.steps)
        release(order=order)
        if world.has_obeyed(order, within_s=PROOF_WITHIN_S):
            return Outcome("ok", f"rank {target.rank} makes delayed steps")
        return Outcome("fail", f"rank {target.rank} made no step that could be delayed")

    def __str__(self) -> str:
        pace = f"x {self.factor:g}" if self.factor else f"{self.delay_s:g} s more a step"
        return f"slow_worker ({pace}{', all ranks' if self.ranks == 'all' else ''})"
