"""What is not renewed in time lapses."""

from chaos.extensions.cluster.existing.terms import Lease


class HandClock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns

    def wall_ns(self) -> int:
        return self.ns

    def sleep(self, seconds: float) -> None:
        self.ns += int(seconds * 1e9)


def test_a_lease_holds_as_long_as_it_is_for() -> None:
    clock = HandClock()
    lease = Lease(15, clock)

    clock.sleep(15)
    assert not lease.has_lapsed

    clock.sleep(0.001)
    assert lease.has_lapsed


def test_a_lease_that_is_renewed_holds_from_then_on() -> None:
    clock = HandClock()
    lease = Lease(15, clock)
    clock.sleep(14)

    lease.renew()
    clock.sleep(14)

    assert not lease.has_lapsed


def test_a_lease_can_be_made_to_outlast_a_time_in_which_nobody_can_renew_it() -> None:
    clock = HandClock()
    lease = Lease(15, clock)

    lease.extend(60)
    clock.sleep(75)
    assert not lease.has_lapsed

    clock.sleep(1)
    assert lease.has_lapsed
