"""Hours, seconds and shares as text."""

ROUND_S = 100
HOUR_S = 3600.0
_LONG = 2.0  # below so many hours or minutes, the smaller unit is used


def in_s(seconds: float) -> str:
    """Return seconds with three digits, whole from 100 on."""
    return f"{seconds:.0f} s" if seconds >= ROUND_S else f"{seconds:.3g} s"


def unit_of(hours: float) -> tuple[str, float]:
    """Return the unit for a time of this size, and its number per hour."""
    if hours >= _LONG:
        return "h", 1.0
    return ("min", 60.0) if hours * 60 >= _LONG else ("s", HOUR_S)


def in_hours(hours: float) -> str:
    """Return a time with its unit: `3.4 h`, `12.0 min`, `5.3 s`."""
    unit, each = unit_of(hours)
    return f"{hours * each:.1f} {unit}"


def in_percent(share: float) -> str:
    """Return a requested share with all its digits: `95%`, `99.9%`."""
    return f"{100 * share:.10g}%"
