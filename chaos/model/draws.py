"""The parts of a scenario that the seed decides: ranges of places, returns, and lifetimes.

A plan knows none of them: `plan.entries` draws plain ops from them.
"""

from typing import ClassVar, Literal, Self, TypeAlias

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from chaos.record import Record

TIMES_MAX = 1_000
HOUR_S = 3600.0


class UpTo(Record):
    """The far end of a range of places; `at` is the near end.

    Each number that is given here is drawn by itself, from that of `at` to this one, both included.
    """

    epoch: NonNegativeInt | None = None
    step: PositiveInt | None = None
    starting: NonNegativeInt | None = None
    visit: PositiveInt | None = None
    seconds: float | None = Field(default=None, gt=0, le=86_400)
    rank: NonNegativeInt | None = None

    @model_validator(mode="after")
    def _require_number(self) -> Self:
        if not self.model_dump(exclude_none=True):
            raise ValueError(f"up_to needs one of {', '.join(UpTo.model_fields)}")
        return self


class Every(Record):
    """The distance from one place of a fault to the next, and the number of places.

    The first place is the one of `at`. Where `at` has a range, each place is drawn anew.
    """

    DISTANCES: ClassVar = ("epochs", "steps", "attempts", "seconds")

    epochs: PositiveInt | None = None
    steps: PositiveInt | None = Field(default=None, description="needs steps_per_epoch")
    attempts: PositiveInt | None = Field(default=None, description="with `at: {starting: N}`")
    seconds: float | None = Field(default=None, gt=0, description="with `at: {seconds: S}`")
    steps_per_epoch: PositiveInt | None = Field(
        default=None, description="the steps that the job makes in an epoch"
    )
    times: PositiveInt | None = Field(
        default=None, le=TIMES_MAX, description="places in all, the first included"
    )
    until: Literal["budget"] | None = Field(
        default=None,
        description="as often as job.failure allows, less what other faults of the file take",
    )

    @model_validator(mode="after")
    def _validate_repetition(self) -> Self:
        if len(self._list_given_keys(*self.DISTANCES)) != 1:
            raise ValueError(f"every needs one of {', '.join(self.DISTANCES)}")
        if len(self._list_given_keys("times", "until")) != 1:
            raise ValueError("every needs either times or `until: budget`")
        if (self.steps is None) != (self.steps_per_epoch is None):
            raise ValueError("every.steps and every.steps_per_epoch go together")
        return self

    @property
    def distance(self) -> str:
        """The key of the distance that is given."""
        return self._list_given_keys(*self.DISTANCES)[0]

    def _list_given_keys(self, *keys: str) -> list[str]:
        return [key for key in keys if getattr(self, key) is not None]


Lost: TypeAlias = Literal["worker", "node"]


class Lifetimes(Record):
    """Machines that last for a while: each that ends is lost with its worker, and replaced.

    There is a machine for each worker, or for each node. A life is counted in the steps that the
    job makes, those included that it makes again: as on a market, time passes for them as well.
    """

    mean_steps: float | None = Field(default=None, gt=0, description="the mean life, in steps")
    mean_h: float | None = Field(
        default=None, gt=0, description="the mean life, in hours: `step_s` makes steps of it"
    )
    step_s: float | None = Field(
        default=None, gt=0, description="seconds that a step takes where a life is of `mean_h`"
    )
    shape: float = Field(
        default=1.0,
        ge=0.05,
        le=50,
        description="of Weibull lives: 1 is exponential, below it the young are lost",
    )
    lost: Lost = Field(default="worker", description="`worker`: kill_worker; `node`: kill_node")
    epochs: PositiveInt = Field(description="the epochs of the job")
    steps_per_epoch: PositiveInt = Field(description="the steps that it makes in each")
    most: PositiveInt = Field(
        default=100, le=TIMES_MAX, description="losses at most; job.failure bounds them as well"
    )

    @model_validator(mode="after")
    def _validate_mean(self) -> Self:
        if (self.mean_steps is None) == (self.mean_h is None):
            raise ValueError("lifetimes needs either mean_steps or mean_h")
        if (self.mean_h is None) != (self.step_s is None):
            raise ValueError("lifetimes.mean_h and lifetimes.step_s go together")
        return self

    @property
    def mean_life_steps(self) -> float:
        if self.mean_steps is not None:
            return self.mean_steps
        assert self.mean_h is not None
        assert self.step_s is not None
        return self.mean_h * HOUR_S / self.step_s
