"""What theory says about the checkpoint interval, each with the range in which it holds.

C: training stands still for one checkpoint. M: mean time between losses of the
job (not of a node). R: from a loss to the first new step. All assume that
losses are independent and memoryless; every answer says where that, or a
formula's own condition, is not met.
"""

import math
from dataclasses import dataclass

_EXPONENT_MAX = 700.0  # beyond it e^x is no number
SMALL = 0.1  # a first-order formula is trusted up to C = 0.1 M


@dataclass(frozen=True)
class Interval:
    """Seconds of training between two checkpoints; `out_of_range` says why not to trust it."""

    name: str
    seconds: float
    source: str
    out_of_range: str | None


def young(save_s: float, loss_every_s: float) -> Interval:
    """Give Young's first-order optimum, sqrt(2 C M)."""
    seconds = math.sqrt(2 * save_s * loss_every_s)
    return Interval(
        "Young",
        seconds,
        "Young 1974, Communications of the ACM 17(9)",
        _too_rare(save_s, loss_every_s),
    )


def daly(save_s: float, loss_every_s: float) -> Interval:
    """Give Daly's higher-order optimum; M itself where C >= 2 M."""
    c, m = save_s, loss_every_s
    if c >= 2 * m:
        seconds = m
    else:
        ratio = c / (2 * m)
        seconds = math.sqrt(2 * c * m) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - c
    why = None if c < 2 * m else f"a save of {c:g} s takes longer than 2 M = {2 * m:g} s"
    return Interval("Daly", seconds, "Daly 2006, Future Generation Computer Systems 22(3)", why)


def availability_optimal(save_s: float, loss_every_s: float, restart_s: float) -> Interval:
    """Give the interval of NVIDIA's availability model: period Ts + sqrt(2 (Tf + Tr) Ts + Ts^2).

    The period holds the save itself; the seconds here do not.
    """
    seconds = math.sqrt(2 * (loss_every_s + restart_s) * save_s + save_s**2)
    why = _too_rare(save_s, loss_every_s)
    if why is None and restart_s > loss_every_s:
        why = f"a restart of {restart_s:g} s takes longer than M = {loss_every_s:g} s"
    return Interval("availability-optimal", seconds, "arXiv 2410.18124 (2024)", why)


def exact(save_s: float, loss_every_s: float) -> Interval:
    """Give the interval of highest `efficiency`: where (1 - x) e^x = e^-C/M, x = tau / M.

    It does not depend on R. Found by halving, as (1 - x) e^x falls steadily.
    """
    if save_s == 0:
        return Interval("exact", 0.0, "minimum of Daly's equation for the wall time", None)
    goal = math.exp(-save_s / loss_every_s)
    low, high = 0.0, 1.0  # (1 - x) e^x falls from 1 to 0 between them
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 - middle) * math.exp(middle) > goal else (low, middle)
    seconds = loss_every_s * (low + high) / 2
    return Interval("exact", seconds, "minimum of Daly's equation for the wall time", None)


def efficiency(interval_s: float, *, save_s: float, loss_every_s: float, restart_s: float) -> float:
    """Give the share of time that is useful: Daly's tau / (M e^(R/M) (e^((tau+C)/M) - 1)).

    Exact for memoryless losses that may strike a restart as well; 0 where the
    exponentials leave the range of numbers.
    """
    m = loss_every_s
    if not math.isfinite(m):
        return interval_s / (interval_s + save_s)
    exponent = restart_s / m + math.log(
        math.expm1(min(_EXPONENT_MAX, (interval_s + save_s) / m)) * m
    )
    return 0.0 if exponent > _EXPONENT_MAX else interval_s / math.exp(exponent)


def intervals(save_s: float, loss_every_s: float, restart_s: float) -> tuple[Interval, ...]:
    """Give all of them, oldest first."""
    return (
        young(save_s, loss_every_s),
        daly(save_s, loss_every_s),
        availability_optimal(save_s, loss_every_s, restart_s),
        exact(save_s, loss_every_s),
    )


def _too_rare(save_s: float, loss_every_s: float) -> str | None:
    if save_s <= SMALL * loss_every_s:
        return None
    return (
        f"first order needs C << M; here C = {save_s:g} s is more than a tenth of "
        f"M = {loss_every_s:g} s"
    )
