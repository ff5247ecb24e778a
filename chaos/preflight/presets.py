"""Markets of our own making, named by their statistics: mean life of a node, and what is special.

No one's trace is in them. Published orders of magnitude were the guide: hours
per node for sought-after GPUs, hundreds to thousands of hours for others
(AWS Spot Advisor's buckets read as a monthly hazard).
"""

from chaos.errors import UsageError
from chaos.preflight.market import Bathtub, Exponential, Market, Notice, Shock
from chaos.scenario_file.messages import nearest

_OURS = "synthetic, made by chaos"
_TWO_MINUTES = Notice(seconds=120, reliability=0.95)
_HALF_A_MINUTE = Notice(seconds=30, reliability=0.8)

MARKETS: tuple[Market, ...] = (
    Market(
        name="calm-500h",
        lifetime=Exponential(mtbf_h=500),
        away_h=0.1,
        notice=_TWO_MINUTES,
        price_ratio=0.4,
        source=_OURS,
    ),
    Market(
        name="mixed-50h",
        lifetime=Exponential(mtbf_h=60),
        shock=Shock(every_h=120, share=0.4),
        away_h=0.25,
        notice=_TWO_MINUTES,
        price_ratio=0.35,
        source=_OURS,
    ),
    Market(
        name="busy-16h",
        lifetime=Exponential(mtbf_h=20),
        shock=Shock(every_h=24, share=0.3),
        away_h=0.5,
        notice=_TWO_MINUTES,
        price_ratio=0.35,
        source=_OURS,
    ),
    Market(
        name="hot-4h",
        lifetime=Exponential(mtbf_h=6),
        shock=Shock(every_h=4, share=0.3),
        away_h=0.75,
        notice=_TWO_MINUTES,
        price_ratio=0.3,
        source=_OURS,
    ),
    Market(
        name="bathtub-24h-cap",
        lifetime=Bathtub(early_share=0.5, early_h=0.8, late_h=22, late_shape=4, cap_h=24),
        away_h=0.1,
        notice=_HALF_A_MINUTE,
        price_ratio=0.25,
        source=_OURS,
    ),
    Market(
        name="unannounced-16h",
        lifetime=Exponential(mtbf_h=16),
        away_h=0.25,
        notice=Notice(),
        price_ratio=0.35,
        source=_OURS,
    ),
)


def preset(name: str) -> Market:
    """Give the market of this name, or raise `UsageError` with the nearest."""
    names = [market.name for market in MARKETS]
    if name in names:
        return MARKETS[names.index(name)]
    near = nearest(name, names)
    hint = f"Did you mean {near}?" if near else f"The markets are {', '.join(names)}."
    raise UsageError(f"there is no market '{name}'", hint)
