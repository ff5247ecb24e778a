"""What has been told of the job that a strike waits for: failures, and orders obeyed."""

from collections.abc import Callable, Mapping

from chaos.faults.order import Order
from chaos.model.event import FailureDecided
from chaos.run.clock import Clock, seconds_since

POLL_S = 0.01


class Witness:
    """Told by the observer and by workers, asked by a backend's `World`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[int, FailureDecided] = {}
        self._obeyed: set[str] = set()
        self.over = False

    def failure_decided(self, event: FailureDecided) -> None:
        """Learn that Ray has decided what follows from a failure."""
        self._failures.setdefault(event.attempt, event)

    def obeyed(self, token: str) -> None:
        """Learn that a worker does as it was told."""
        self._obeyed.add(token)

    def failure_of(self, attempt: int, *, within_s: float) -> Mapping[int, str] | None:
        """Wait for the failure of an attempt, no longer than the run; gives the ranks' errors."""
        self._wait(lambda: attempt in self._failures, within_s)
        event = self._failures.get(attempt)
        return None if event is None else event.errors

    def has_obeyed(self, order: Order, *, within_s: float) -> bool:
        """Wait until an order is obeyed, no longer than the run, and say whether it is."""
        return self._wait(lambda: order.token in self._obeyed, within_s)

    def let_pass(self, seconds: float) -> bool:
        """Let time pass; False where the run ended before it was over."""
        self._wait(lambda: False, seconds)
        return not self.over

    def _wait(self, is_there: Callable[[], bool], within_s: float) -> bool:
        start = self._clock.now_ns()
        while not is_there():
            if self.over or seconds_since(start, self._clock) > within_s:
                return is_there()
            self._clock.sleep(POLL_S)
        return True
