"""How long nodes lived in a trace that names them, and by which law."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from chaos.errors import UsageError
from chaos.preflight.capacity import Floats
from chaos.preflight.market import Weibull

ENOUGH = 30  # lives that ended, to tell one law from the other
CLEARLY = 2.0  # of AIC: what lies nearer has support as well, and the simpler law is taken
_TWO = 2


@dataclass(frozen=True)
class Life:
    """How long a node was there; `is_over` is false where something else cut it off."""

    hours: float
    is_over: bool


@dataclass(frozen=True)
class Law:
    """The law of lives that was chosen: None is exponential; `why` says how."""

    weibull: Weibull | None
    why: str


def lives_in(
    events: Iterable[tuple[float, str, Sequence[str]]], *, end_s: float
) -> tuple[Life, ...]:
    """Give the lives in a trace's (second, `add` or `remove`, nodes), in order.

    Nodes that were there when it began are left out, as nobody knows how old
    they are. A life that ends together with others ended by a shock, and one
    that lasts to the end of the trace goes on: of both only that they lasted
    so long is known.
    """
    ordered = list(events)
    since_s = ordered[0][0] if ordered else 0.0
    gone = Counter[float]()
    for at_s, what, nodes in ordered:
        gone[at_s] += len(nodes) * (what == "remove")
    born: dict[str, float] = {}
    lives: list[Life] = []
    for at_s, what, nodes in ordered:
        for node in nodes:
            if what == "add" and at_s > since_s:
                born[node] = at_s
            elif what == "remove" and node in born:
                lives.append(Life((at_s - born.pop(node)) / 3600, gone[at_s] < _TWO))
    lives += [Life((end_s - at_s) / 3600, is_over=False) for at_s in born.values()]
    return tuple(life for life in lives if life.hours > 0)


def law_of(lives: Sequence[Life]) -> Law:
    """Choose between exponential and Weibull by Akaike's criterion (1974), where lives are enough.

    Weibull has one parameter more, and is taken where its criterion is lower by
    more than 2 (Burnham and Anderson 2002: within that both have support).
    """
    ended = sum(life.is_over for life in lives)
    if not lives:
        return Law(None, "lives are taken as exponential: no node in it is seen from its beginning")
    if ended < ENOUGH:
        why = (
            f"{ended} nodes are seen from their beginning to a loss of their own ({ENOUGH} needed)"
        )
        return Law(None, f"lives are taken as exponential: {why}")
    hours = np.array([life.hours for life in lives])
    over = np.array([float(life.is_over) for life in lives])
    found = fit_weibull(hours, is_over=over)
    gain = _aic(hours, over, Weibull(scale_h=hours.sum() / ended, shape=1.0), free=1) - _aic(
        hours, over, found, free=2
    )
    said = f"AIC of Weibull lives (shape {found.shape:.2f}, {ended} that ended) is"
    if gain > CLEARLY:
        return Law(found, f"{said} {gain:.1f} below that of exponential ones: they are taken")
    side = f"only {gain:.1f} below" if gain > 0 else f"{-gain:.1f} above"
    return Law(None, f"{said} {side} that of exponential ones, which are taken")


def fit_weibull(lives_h: Floats, *, is_over: Floats | None = None) -> Weibull:
    """Give the most likely Weibull for lives in hours; `is_over` is 0 where one was cut off.

    The shape is the zero of the profile likelihood's slope, which falls
    steadily; it is looked for between 0.05 and 50.
    """
    over = np.ones(len(lives_h)) if is_over is None else np.asarray(is_over, dtype=float)
    lives = np.asarray(lives_h, dtype=float)
    if over.sum() < _TWO or (lives <= 0).any():
        raise UsageError("a Weibull needs at least two lives that ended, all above 0 h")
    logs = np.log(lives / lives.max())
    mean_log = (logs * over).sum() / over.sum()

    def slope(shape: float) -> float:
        powers = np.exp(shape * logs)
        return float(1 / shape + mean_log - (powers * logs).sum() / powers.sum())

    low, high = 0.05, 50.0
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    scale = lives.max() * float(np.exp(low * logs).sum() / over.sum()) ** (1 / low)
    return Weibull(scale_h=scale, shape=low)


def _aic(hours: Floats, over: Floats, life: Weibull, *, free: int) -> float:
    """Give 2 k - 2 log L of lives, of which some were cut off."""
    shape, ages = life.shape, hours / life.scale_h
    logs = over * (math.log(shape / life.scale_h) + (shape - 1) * np.log(ages)) - ages**shape
    return 2 * free - 2 * float(logs.sum())
