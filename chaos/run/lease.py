"""A permission that lapses unless it is renewed."""

from chaos.run.clock import Clock, seconds_since


class Lease:
    """A permission for so many seconds after it was made or last renewed."""

    def __init__(self, for_s: float, clock: Clock) -> None:
        self._for_s = for_s
        self._clock = clock
        self._since_ns = clock.now_ns()

    def renew(self) -> None:
        """Start its time again."""
        self._since_ns = self._clock.now_ns()

    def extend(self, by_s: float) -> None:
        """Start its time again, `by_s` from now."""
        self._since_ns = self._clock.now_ns() + int(by_s * 1e9)

    @property
    def has_lapsed(self) -> bool:
        """Whether it was not renewed in time."""
        return seconds_since(self._since_ns, self._clock) > self._for_s
