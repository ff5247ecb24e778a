"""Slurm's account of a job's starts, as a note beside what was seen."""

from chaos.check.analysis import RunAnalysis
from chaos.extensions.slurm.accounts import describe_job_starts
from chaos.model import event as ev
from tests.accepted import expect_text
from tests.check.scribe import history_of
from tests.check.story import Story

PLAN = Story().plan()


def start(number: int, state: str, code: int = 0, ran_s: float | None = 7.0) -> ev.JobAccounted:
    return ev.JobAccounted(
        start=number, state=state, ran_s=ran_s, code=code, signal=0, nodes="node-[0-1]"
    )


def group(attempt: int) -> ev.WorkerGroupStarted:
    return ev.WorkerGroupStarted(attempt=attempt, workers=())


def told(*events: ev.AnyEvent) -> list[str]:
    return [*describe_job_starts(RunAnalysis(PLAN, history_of(*events), None))]


def test_each_start_is_told_with_the_attempts_that_were_seen_in_it() -> None:
    rounds = (group(0), group(1), start(0, "PREEMPTED"))

    [note] = told(*rounds, group(2), start(1, "FAILED", code=143))

    expect_text(note)


def test_a_start_in_which_nothing_was_seen_says_so() -> None:
    [note] = told(start(0, "PENDING"), group(0), start(1, "COMPLETED"))

    expect_text(note)


def test_a_job_that_never_began_has_no_time() -> None:
    assert "start 0: CANCELLED, in which" in told(start(0, "CANCELLED", ran_s=None))[0]


def test_without_an_account_there_is_no_note() -> None:
    assert not told(group(0))
