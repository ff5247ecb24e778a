"""A fault-free run that hangs after its last step is not told to have less data."""

from pathlib import Path

from chaos.job_failure import find_stall_error
from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from chaos.report.outcome import FinishedRun
from tests.accepted import expect_text
from tests.report.conftest import run_of

LIMIT_S = 600  # the limit of a run


def ended_at_its_limit(*, last_step_s: float | None) -> FinishedRun:
    seen: list[tuple[float, ev.AnyEvent]] = [(LIMIT_S, ev.DeadlinePassed(limit_s=LIMIT_S))]
    if last_step_s is not None:
        step = ev.StepDone(attempt=0, rank=1, epoch=3, step=10, losses=(0.5,))
        seen.insert(0, (last_step_s, step))
    return run_of(
        History(
            [
                JournalEntry(time_ns=int(at_s * 1e9), source="x", seq=number, event=event)
                for number, (at_s, event) in enumerate(seen)
            ]
        )
    )


def test_a_job_without_a_step_for_most_of_its_time_stood_still() -> None:
    error = find_stall_error(ended_at_its_limit(last_step_s=20), Path("run/logs"))

    assert error is not None
    expect_text(error.problem)
    assert "run/logs" in (error.hint or "")


def test_a_job_that_still_trains_at_its_limit_is_too_long() -> None:
    assert find_stall_error(ended_at_its_limit(last_step_s=598), Path("logs")) is None


def test_a_job_that_never_came_to_a_step_may_be_reading_its_data() -> None:
    assert find_stall_error(ended_at_its_limit(last_step_s=None), Path("logs")) is None
