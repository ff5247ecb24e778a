"""Storage does what it was asked to, and the answer is lost on the way."""

from typing import ClassVar

from pydantic import Field, NonNegativeInt, PositiveInt

from chaos.faults.storage import StorageFault
from chaos.faults.world import LauncherFeature


class LoseAnswer(StorageFault):
    """Lose the answers to the request that puts an object, after the store has done it.

    For an object that the job puts into a store itself (`moment: putting` or `completing`). The
    client sees a broken connection and sends the request again (boto3 up to four times more by
    default), and each time it is done anew. What is lost more often than that is raised. Landed
    when an answer was lost.
    """

    needs: ClassVar[LauncherFeature | None] = None
    own_objects = "only"
    sentence = "an answer was lost"

    times: PositiveInt = Field(
        default=1, description="answers that are lost in a row, each of one try"
    )
    rank: NonNegativeInt | None = Field(
        default=None, description="whose object; left out: the trigger's rank"
    )

    def __str__(self) -> str:
        return f"lose_answer (x{self.times})"
