"""A tensor of one rank changes without a word, as by a broken unit or memory without ECC."""

from typing import Literal, Self

from pydantic import Field, NonNegativeInt, model_validator

from chaos.faults.base import OrderedFault
from chaos.faults.order import Corrupt
from chaos.faults.world import Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 30.0


class CorruptTensor(OrderedFault):
    """Change one number of a weight, a gradient or the optimizer's state, and raise nothing.

    It happens as the next optimizer step begins, after gradients have been reduced over all ranks,
    to the largest number of the first tensor. Landed when the worker has reported it. No attempt
    ends by it, unless the job itself notices (silent data corruption: Dixit et al.,
    arXiv:2102.11245).
    """

    ends_attempt = "perhaps"
    sentence = "a number of {fault.what} was changed {fault.where} {place}"

    tensor: Literal["weight", "gradient", "optimizer"] = "weight"
    how: Literal["bit", "sign", "nan"] = "bit"
    bit: NonNegativeInt | None = Field(
        default=None,
        le=63,
        description="with `how: bit`: the bit that is flipped, from the lowest; left out: "
        "the highest of the mantissa in 32 bits",
    )
    lasting: bool = Field(
        default=False, description="before every further step of the attempt as well"
    )
    ranks: Literal["one", "all"] = Field(
        default="one", description="`all`: every rank alike, after which their copies stay equal"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.bit is not None and self.how != "bit":
            raise ValueError("bit goes with `how: bit`")
        return self

    @property
    def what(self) -> str:
        """The kind of tensor, in words."""
        return {
            "weight": "the weights",
            "gradient": "the gradients",
            "optimizer": "the optimizer's state",
        }[self.tensor]

    @property
    def where(self) -> str:
        return "on all ranks" if self.orders_all_ranks else "on one rank"

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        order = Corrupt(self.tensor, self.how, self.bit, self.lasting)
        release(order=order)
        if world.has_obeyed(order, within_s=PROOF_WITHIN_S):
            return Outcome("ok", f"rank {target.rank} changed a number of {self.what}")
        why = f"rank {target.rank} made no further step with such a tensor"
        return Outcome("fail", f"{why} (the optimizer of plain SGD has no state)")

    def __str__(self) -> str:
        bit = f" {self.bit}" if self.bit is not None else ""
        extent_text = (", lasting" if self.lasting else "") + (
            ", all ranks" if self.orders_all_ranks else ""
        )
        return f"corrupt_tensor ({self.tensor}, {self.how}{bit}{extent_text})"
