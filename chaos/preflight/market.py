"""A spot market: how nodes are lost, how long they stay away, what word is given, at what price."""

import math
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, NonNegativeFloat, PositiveFloat, model_validator

from chaos.record import Record


class Exponential(Record):
    """Nodes are lost whatever their age, once in `mtbf_h` hours each."""

    kind: Literal["exponential"] = "exponential"
    mtbf_h: PositiveFloat

    @property
    def mean_h(self) -> float:
        """The mean life of a node."""
        return self.mtbf_h


class Weibull(Record):
    """Lives with hazard growing as age^(shape-1): below 1 the young die, above 1 the old."""

    kind: Literal["weibull"] = "weibull"
    scale_h: PositiveFloat
    shape: PositiveFloat

    @property
    def mean_h(self) -> float:
        """The mean life of a node."""
        return self.scale_h * math.gamma(1 + 1 / self.shape)


class Bathtub(Record):
    """Many die young, few in the middle, all before `cap_h`.

    With probability `early_share` a life is exponential with mean `early_h`;
    otherwise Weibull (`late_h`, `late_shape`). No node outlives the cap.
    """

    kind: Literal["bathtub"] = "bathtub"
    early_share: float = Field(ge=0, le=1)
    early_h: PositiveFloat
    late_h: PositiveFloat
    late_shape: float = Field(gt=1)
    cap_h: PositiveFloat

    @property
    def mean_h(self) -> float:
        """The mean life of a node: the integral of the share that is alive."""
        steps = 2000
        width = self.cap_h / steps
        ages = ((n + 0.5) * width for n in range(steps))
        return width * sum(self._alive(age) for age in ages)

    def _alive(self, age_h: float) -> float:
        early = math.exp(-age_h / self.early_h)
        late = math.exp(-((age_h / self.late_h) ** self.late_shape))
        return self.early_share * early + (1 - self.early_share) * late


Lifetime: TypeAlias = Annotated[Exponential | Weibull | Bathtub, Field(discriminator="kind")]


class Shock(Record):
    """Once in `every_h` hours each node is lost with probability `share`, all at one instant."""

    every_h: PositiveFloat
    share: float = Field(gt=0, le=1)


class Notice(Record):
    """A loss is announced `seconds` before, in `reliability` of all cases."""

    seconds: NonNegativeFloat = 0.0
    reliability: float = Field(default=1.0, ge=0, le=1)


class Replay(Record):
    """The changes of a real trace, from a random place on, round and round.

    `at_s` are the times of changes and `up` the share of the peak that is up
    from then on; the first is at 0.
    """

    at_s: tuple[NonNegativeFloat, ...] = Field(min_length=2)
    up: tuple[float, ...] = Field(min_length=2)
    span_s: PositiveFloat


class Market(Record):
    """A spot market. `price_ratio`: a node's price as a share of the on-demand price.

    Either `lifetime` or `replay` says how nodes are lost; `away_h` is the mean
    time until a lost node is replaced (exponential; 0: at once).
    """

    name: str = "market"
    lifetime: Lifetime | None = None
    replay: Replay | None = None
    shock: Shock | None = None
    away_h: NonNegativeFloat = 0.0
    notice: Notice = Notice()
    price_ratio: float = Field(default=0.35, gt=0)
    source: str = Field(default="given by hand", description="where these figures are from")

    @model_validator(mode="after")
    def _says_how_nodes_are_lost(self) -> Self:
        if (self.lifetime is None) == (self.replay is None):
            raise ValueError("a market needs either lifetime or replay")
        return self

    @property
    def mtbf_h(self) -> float:
        """Node-hours held per node lost, by all causes."""
        if self.replay is not None:
            return replayed_mtbf_h(self.replay)
        assert self.lifetime is not None
        rate = 1 / self.lifetime.mean_h
        if self.shock is not None:
            rate += self.shock.share / self.shock.every_h
        return 1 / rate


def replayed_mtbf_h(replay: Replay) -> float:
    """Give node-hours held per node lost in a trace; infinite where none is lost."""
    ends = (*replay.at_s[1:], replay.span_s)
    held = sum(up * (end - at) for up, at, end in zip(replay.up, replay.at_s, ends, strict=True))
    pairs = zip(replay.up, replay.up[1:], strict=False)
    lost = sum(max(0.0, before - after) for before, after in pairs)
    return held / 3600 / lost if lost else math.inf


def loss_interval_s(market: Market, pool: int) -> float:
    """Give the mean seconds between two events in which `pool` nodes lose at least one.

    Exact for exponential lives and shocks; for other lives the long-run rate.
    """
    if market.replay is not None:
        pairs = zip(market.replay.up, market.replay.up[1:], strict=False)
        drops = sum(after < before for before, after in pairs)
        return market.replay.span_s / drops if drops else math.inf
    assert market.lifetime is not None
    rate = pool / market.lifetime.mean_h
    if market.shock is not None:
        rate += (1 - (1 - market.shock.share) ** pool) / market.shock.every_h
    return 3600 / rate
