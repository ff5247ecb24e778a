"""Counts, lists and errors as words, for sentences."""

from collections.abc import Sequence


def plural(count: int, noun: str, many: str = "") -> str:
    """Return a count with its noun: `1 step`, `2 steps`, `2 losses`."""
    return f"{count} {noun}" if count == 1 else f"{count} {many or noun + 's'}"


def ranks(named: Sequence[int]) -> str:
    """Return the names of ranks: `rank 0`, `ranks 0 and 1`, `ranks 0, 2 and 3`."""
    few = [str(rank) for rank in sorted(set(named))]
    if len(few) == 1:
        return f"rank {few[0]}"
    return f"ranks {', '.join(few[:-1])} and {few[-1]}"


def gist(message: str) -> str:
    """Return the last line of an error's text, the most specific one of a traceback."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1] if lines else "it gave no reason"
