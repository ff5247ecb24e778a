"""A permission that lapses unless it is renewed."""

from chaos.run.clock import Clock, seconds_since


class Lease:
    """Holds from when it is made or was last renewed, for so many seconds."""

    def __init__(self, for_s: float, clock: Clock) -> None:
        self._for_s = for_s
        self._clock = clock
        self._since_ns = clock.now_ns()

    def renew(self) -> None:
        """Let it hold from now on again."""
        self._since_ns = self._clock.now_ns()

    def extend(self, by_s: float) -> None:
        """Let it hold for longer, once."""
        self._since_ns = self._clock.now_ns() + int(by_s * 1e9)

    @property
    def has_lapsed(self) -> bool:
        """Whether nobody has renewed it in time."""
        return seconds_since(self._since_ns, self._clock) > self._for_s
