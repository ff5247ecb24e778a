"""A spot market: how nodes are lost, how long they stay away, what word is given, at what price."""

import math
from itertools import pairwise
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, NonNegativeFloat, PositiveFloat, model_validator

from chaos.preflight.figure import Figures


class Exponential(Figures):
    """Nodes are lost whatever their age, once in `mtbf_h` hours each."""

    kind: Literal["exponential"] = "exponential"
    mtbf_h: PositiveFloat

    @property
    def mean_h(self) -> float:
        """The mean life of a node."""
        return self.mtbf_h


class Weibull(Figures):
    """Lives with hazard growing as age^(shape-1): below 1 the young die, above 1 the old."""

    kind: Literal["weibull"] = "weibull"
    scale_h: PositiveFloat
    shape: PositiveFloat

    @property
    def mean_h(self) -> float:
        """The mean life of a node."""
        return self.scale_h * math.gamma(1 + 1 / self.shape)


class Bathtub(Figures):
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


def faster(life: Lifetime, times: float) -> Lifetime:
    """Give lives that pass so many times as fast."""
    names = {
        Exponential: ("mtbf_h",),
        Weibull: ("scale_h",),
        Bathtub: ("early_h", "late_h", "cap_h"),
    }[type(life)]
    return life.model_copy(update={name: getattr(life, name) / times for name in names})


class Shock(Figures):
    """Once in `every_h` hours each node is lost with probability `share`, all at one instant."""

    every_h: PositiveFloat
    share: float = Field(gt=0, le=1)


class Notice(Figures):
    """A loss is announced `seconds` before, in `reliability` of all cases."""

    seconds: NonNegativeFloat = 0.0
    reliability: float = Field(default=1.0, ge=0, le=1)


class Doubt(Figures):
    """How much worse a fitted market may be, by the worse ends of its 95 % intervals."""

    losses: float = Field(default=1.0, ge=1, description="so many times as frequent")
    away: float = Field(default=1.0, ge=1, description="nodes are missing so many times as long")


class Replay(Figures):
    """The changes of a real trace, from a random place on, round and round.

    `at_s` are the times of changes and `up` the share of the peak that is up
    from then on; the first is at 0.
    """

    at_s: tuple[NonNegativeFloat, ...] = Field(min_length=2)
    up: tuple[float, ...] = Field(min_length=2)
    span_s: PositiveFloat


class Market(Figures):
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
    doubt: Doubt | None = Field(default=None, description="left out: taken as it is given")
    price_ratio: float = Field(default=0.35, gt=0)
    source: str = Field(default="given by hand", description="where these figures are from")

    @model_validator(mode="after")
    def _says_how_nodes_are_lost(self) -> Self:
        if (self.lifetime is None) == (self.replay is None):
            raise ValueError("a market needs either lifetime or replay")
        if self.doubt is not None and self.lifetime is None:
            raise ValueError("market.doubt is of lifetime: a repeated trace has its own")
        return self

    @property
    def makes_wait(self) -> bool:
        """Whether a lost node may be missing for a while."""
        return self.replay is not None or self.away_h > 0

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


def at_worst(market: Market) -> Market | None:
    """Give a fitted market as bad as its trace allows; None where it is in no doubt."""
    if market.doubt is None or market.lifetime is None:
        return None
    losses, shock = market.doubt.losses, market.shock
    values = {
        "name": f"{market.name}, at worst",
        "lifetime": faster(market.lifetime, losses),
        "shock": shock and shock.model_copy(update={"every_h": shock.every_h / losses}),
        "away_h": market.away_h * market.doubt.away,
        "doubt": None,
    }
    return market.model_copy(update=values)


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
    A trace that is repeated is scaled to the pool, as the simulation does it.
    """
    if market.replay is not None:
        up = [round(share * pool) for share in market.replay.up]
        drops = sum(after < before for before, after in pairwise(up))
        return market.replay.span_s / drops if drops else math.inf
    assert market.lifetime is not None
    rate = pool / market.lifetime.mean_h
    if market.shock is not None:
        rate += (1 - (1 - market.shock.share) ** pool) / market.shock.every_h
    return 3600 / rate
