"""A trace drawn anew out of pieces of itself: what the same market could have shown instead."""

from itertools import pairwise

import numpy as np

from chaos.preflight.capacity import Floats
from chaos.preflight.market import Replay


def losses_in(replay: Replay) -> int:
    """Count the losses in a trace, each of one node or more."""
    return sum(after < before for before, after in pairwise(replay.up))


def pieces_for(losses: int) -> int:
    """Give into how many pieces a trace is cut: as many as half its losses, between 4 and 40."""
    return max(4, min(40, losses // 2))


def resampled(replay: Replay, rng: np.random.Generator) -> Replay:
    """Give a trace of the same length, joined from pieces of one.

    A piece begins at a moment at which as many nodes are up as at the end of
    the piece before, so that no joint is a loss: matched blocks, Carlstein and
    others 1998, Bernoulli 4(3). Where a piece passes the trace's end it goes on
    at the beginning; a fall there counts as one loss more.
    """
    at, up = np.asarray(replay.at_s), np.asarray(replay.up)
    lasts = np.diff(np.append(at, replay.span_s))
    pieces = pieces_for(losses_in(replay))
    changes: list[tuple[float, float]] = []
    now_s, place = 0.0, _drawn(lasts, rng)
    left_s = float(lasts[place] * rng.random())
    for piece in range(1, pieces + 1):
        until_s = replay.span_s * (piece / pieces)  # of the last, exactly the end
        while now_s < until_s:
            if not changes or changes[-1][1] != up[place]:
                changes.append((now_s, float(up[place])))
            step_s = min(left_s, until_s - now_s)
            now_s, left_s = now_s + step_s, left_s - step_s
            if left_s <= 0:
                place = (place + 1) % len(at)
                left_s = float(lasts[place])
        alike = np.where(up == changes[-1][1], lasts, 0.0)
        place = _drawn(alike if alike.any() else lasts, rng)
        left_s = float(lasts[place] * rng.random())
    if len(changes) == 1:  # nothing changed in it, which a replay spells as two times the same
        changes.append((replay.span_s / 2, changes[0][1]))
    at_s, shares = zip(*changes, strict=True)
    return replay.model_copy(update={"at_s": at_s, "up": shares})


def _drawn(weights: Floats, rng: np.random.Generator) -> int:
    return int(rng.choice(len(weights), p=weights / weights.sum()))
