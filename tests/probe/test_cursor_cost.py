"""What watching costs is counted once, and without the gates."""

from chaos.probe.cursor import ProbeCost


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns

    def wall_ns(self) -> int:
        return self.ns

    def sleep(self, seconds: float) -> None:
        self.ns += int(seconds * 1e9)


def test_time_that_is_spent_within_is_counted_once_and_state_by_itself() -> None:
    hands = Hands()
    cost = ProbeCost(hands)

    with cost.watch_time:
        hands.ns += 3
        with cost.watch_time, cost.state_time:
            hands.ns += 5
    hands.ns += 100
    with cost.watch_time:
        hands.ns += 2

    assert (cost.watch_time.spent_ns, cost.state_time.spent_ns) == (10, 5)
    cost.reset()
    assert (cost.watch_time.spent_ns, cost.state_time.spent_ns, cost.step_count) == (0, 0, 0)
