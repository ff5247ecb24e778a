"""An order of numbers that leaves no large gap, wherever it is cut off."""

_GOLDEN = 0.6180339887498949


def evenly(count: int, *, shift: float = 0.0) -> list[int]:
    """Order numbers so that any beginning of them leaves no large gap.

    Multiples of the golden ratio fall that way; `shift` moves where they begin.
    """
    return sorted(range(count), key=lambda n: (shift + n * _GOLDEN) % 1.0)
