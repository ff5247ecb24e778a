"""A report that is under way is taken before an error is told, and no error waits for ever."""

from dataclasses import dataclass

from chaos.launch.forked.reports import WAIT_S, PendingReports

S = 1_000_000_000


@dataclass
class Status:
    """As much of Ray's `WorkerStatus` as is asked for."""

    running: bool = True
    error: Exception | None = None
    training_report: str | None = None


def failed(report: str | None = None) -> Status:
    return Status(running=False, error=RuntimeError(), training_report=report)


def reported() -> Status:
    return Status(training_report="report")


def polls(under_way: PendingReports, *statuses: dict[int, Status]) -> list[bool]:
    return [under_way.hides_errors(at, n) for n, at in enumerate(statuses)]


def test_an_error_waits_for_the_report_that_another_rank_has_begun() -> None:
    hidden = polls(
        PendingReports(),
        {0: reported(), 1: Status()},
        {0: failed(), 1: Status()},
        {0: failed(), 1: reported()},
        {0: failed(), 1: Status()},
    )

    assert hidden == [False, True, False, False]


def test_an_error_waits_for_the_rest_of_what_its_own_rank_reported() -> None:
    hidden = polls(
        PendingReports(),
        {0: failed("first"), 1: reported()},
        {0: failed("second"), 1: reported()},
        {0: failed(), 1: Status()},
    )

    assert hidden == [True, True, False]


def test_a_rank_that_died_before_its_report_was_taken_is_told_of_at_once() -> None:
    assert polls(PendingReports(), {0: failed(), 1: reported()}) == [False]


def test_a_rank_that_is_gone_or_done_is_not_waited_for() -> None:
    done = Status(running=False)

    assert polls(PendingReports(), {0: reported()}, {0: failed(), 1: failed(), 2: done}) == [
        False,
        False,
    ]


def test_no_error_waits_longer_than_a_poll_of_rays_takes() -> None:
    under_way = PendingReports()
    polls(under_way, {0: reported(), 1: Status()})
    statuses = {0: failed(), 1: Status()}

    late = int(WAIT_S * S)
    assert [under_way.hides_errors(statuses, at) for at in (0, late - 1, late)] == [
        True,
        True,
        False,
    ]
