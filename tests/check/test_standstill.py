"""A run that was ended as it stood still is a hang, and its finding names who waits, and where."""

import pytest

from chaos.check.judge import judge
from chaos.check.standstill import describe_waits
from chaos.check.time_limits import IDLE_MIN_S, add_idle_limit, measure_longest_idle_s
from chaos.model import event as ev
from chaos.model.history import Baseline, History
from chaos.model.verdict import CheckResult
from tests.accepted import expect_text
from tests.check.shorthand import plan_of, told_in
from tests.check.tamper import changed, told
from tests.findings import expect_finding

CLEAN = "g s s r c s s r c ."
HUNG = "g s s r c s x g<c0 s +12 H"


def wait(
    rank: int, line: int, callee: str = "queue.get", *, is_main: bool = True
) -> ev.ThreadWaits:
    return ev.ThreadWaits(
        attempt=1,
        rank=rank,
        file="/a/train.py",
        line=line,
        function="take",
        callee=callee,
        caller_line=88,
        is_main=is_main,
    )


def stood_still(*waits: ev.ThreadWaits, run: str = HUNG) -> History:
    ended = changed(told_in(run), ev.DeadlinePassed, still_s=12.0)
    return told(ended, *waits)


def found(check: str, history: History) -> CheckResult:
    verdict = judge(plan_of(HUNG), history, told_in(CLEAN))
    return next(result for result in verdict.results if result.check == check)


def test_a_standstill_is_a_hang_however_short_it_was() -> None:
    history = stood_still(wait(0, 31), wait(1, 31))

    progress, terminates = found("progress", history), found("terminates", history)

    assert (progress.status, terminates.status) == ("fail", "fail")
    (hung,) = progress.anomalies
    assert hung.message.startswith("hung after rank 1's step")
    expect_finding(hung, "ranks-stand-still", still_s=12.0)
    assert "train.py:31 at `queue.get`" in hung.message
    assert all(0 <= number < len(history) for number in hung.events)


def test_the_same_quiet_time_at_the_limit_of_the_run_is_none() -> None:
    assert found("progress", told_in(HUNG)).status != "fail"


def test_a_record_without_stacks_is_read_as_before() -> None:
    (hung,) = found("progress", stood_still()).anomalies
    assert "wait in" not in hung.message


def test_each_rank_and_each_thread_is_named_once() -> None:
    waits = [
        wait(0, 53, is_main=False),
        wait(0, 31, "barrier"),
        wait(1, 40),
        wait(2, 40),
    ]

    expect_text(describe_waits(waits, cwd="/a"))


def test_of_a_run_that_was_not_seen_to_stand_still_it_is_not_said_that_it_waits() -> None:
    assert describe_waits([wait(0, 31)], cwd="/a", is_still=False).startswith("rank 0 was in ")
    assert describe_waits([], cwd="/a") == ""


@pytest.mark.parametrize(
    ("clean", "limit_s"),
    [(CLEAN, IDLE_MIN_S), ("g +7 s s r c s s r c .", 35), ("g s s r c +30 s s r c .", 150)],
    ids=["at least", "by the start", "by a pause"],
)
def test_a_job_may_stand_still_five_times_as_long_as_without_a_fault(
    clean: str, limit_s: float
) -> None:
    plan = add_idle_limit(plan_of(HUNG), Baseline([told_in(CLEAN), told_in(clean)]))

    assert plan.limits.idle_s == pytest.approx(limit_s, abs=2)


def test_a_limit_that_the_scenario_states_stands() -> None:
    plan = plan_of(HUNG)
    stated = plan.model_copy(update={"limits": plan.limits.model_copy(update={"idle_s": 600.0})})

    assert add_idle_limit(stated, Baseline([told_in(CLEAN)])).limits.idle_s == 600


def test_a_history_without_workers_has_no_pause() -> None:
    assert measure_longest_idle_s(History([])) == 0
