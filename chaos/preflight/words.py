"""How durations are said."""

ROUND_S = 100


def in_s(seconds: float) -> str:
    """Give seconds with as many digits as mean something."""
    return f"{seconds:.0f} s" if seconds >= ROUND_S else f"{seconds:.3g} s"
