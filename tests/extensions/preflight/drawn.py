"""Traces that a known market made."""

import numpy as np

from chaos.extensions.preflight.capacity import capacity
from chaos.extensions.preflight.market import Market
from chaos.extensions.preflight.trace import Trace, build_trace


def drawn(market: Market, *, nodes: int, hours: float, seed: int = 1) -> Trace:
    """Return a trace that a market made."""
    engine = capacity(market, nodes, 1, np.random.Generator(np.random.PCG64(seed)))
    counts = [(0.0, nodes)]
    while engine.next_s[0] < hours * 3600:
        at_s = float(engine.next_s[0])
        engine.change()
        counts.append((at_s, int(engine.up[0])))
    return build_trace("drawn", counts, format_="test", kind="held", span_s=hours * 3600)
