"""The training code itself fails, as it does from bad data or a broken batch."""

from typing import Literal

from pydantic import Field, NonNegativeInt

from chaos.faults.base import OrderedFault
from chaos.faults.order import Raise
from chaos.faults.world import Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 30.0
ERROR = "InjectedError"


class RaiseInWorker(OrderedFault):
    """Raise an exception in the train function, at the place.

    Landed when Ray has recorded a failure of the attempt that names it. If the job catches it,
    there is none.
    """

    ends_attempt = "always"
    at_random = ({}, {"ranks": "all"})
    sentence = "rank {rank} raised {place}"

    message: str = Field(default="injected by chaos", min_length=1, max_length=200)
    ranks: Literal["one", "all"] = Field(
        default="one", description="`all`: every rank raises as it comes to the same place"
    )
    attempts: tuple[NonNegativeInt, ...] | None = Field(
        default=None,
        min_length=1,
        description="the attempts in which it raises; left out: once, when the place is reached",
    )

    @property
    def is_repeated(self) -> bool:
        return self.attempts is not None

    @property
    def only_attempts(self) -> tuple[int, ...] | None:
        return self.attempts

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        release(order=Raise(self.message))
        errors = world.wait_for_failure(target, within_s=PROOF_WITHIN_S)
        rank_text = f"rank {target.rank}"
        if errors is None:
            words = (
                f"{rank_text} was ordered to raise, and no failure of attempt "
                f"{target.attempt} followed"
            )
            return Outcome("fail", f"{words}: was the exception caught?")
        raising_ranks = [rank for rank, error in sorted(errors.items()) if ERROR in error]
        if not raising_ranks:
            return Outcome(
                "info", f"{rank_text} was ordered to raise, and another error was recorded"
            )
        ranks_text = " and ".join(f"rank {rank}" for rank in raising_ranks)
        return Outcome("ok", f"{ERROR} of {ranks_text} was recorded")

    def __str__(self) -> str:
        return f"raise_in_worker{' (all ranks)' if self.ranks == 'all' else ''}"
