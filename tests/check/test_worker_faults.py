"""Faults that end no attempt, faults that end several, and jobs that go in circles."""

from typing import Any

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.check.injections import Injection
from chaos.check.judge import judge
from chaos.faults.hang_worker import HangWorker
from chaos.faults.kill_worker import KillWorker
from chaos.faults.pause_worker import PauseWorker
from chaos.faults.poison_step import PoisonStep
from chaos.faults.raise_in_worker import RaiseInWorker
from chaos.faults.slow_worker import SlowWorker
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtStep
from chaos.model.verdict import CheckResult, Verdict
from tests.check.each import judge_each
from tests.check.shorthand import told_in
from tests.check.story import Story
from tests.check.tamper import changed, told
from tests.findings import expect_finding

AT = AtStep(epoch=1, step=1, rank=1)
CLEAN = "g s s r c s s r c ."
SPARED = ["pause_worker", "slow_worker", "hang_worker"]
FAULTS: dict[str, Any] = {
    "pause_worker": PauseWorker(for_s=3),
    "slow_worker": SlowWorker(delay_s=1.0),
    "hang_worker": HangWorker(),
}


def plan_of(kind: str, fault: Any, **expect: Any) -> Plan:
    op = Op(index=0, at=AT, **{kind: fault})
    return Story().plan(**expect).model_copy(update={"ops": (op,)})


def struck(line: str) -> History:
    """Tell a line in which every kill is the same op's."""
    history = told_in(line)
    for kind in (ev.GateReached, ev.FaultInvoked, ev.FaultEnded):
        history = changed(history, kind, op=0)
    return history


def spared(line: str, *, status: str = "ok") -> History:
    """Tell a line in which `i` is a strike that leaves its worker alive."""
    ended = ev.FaultEnded(op=0, status=status, detail="seen")  # type: ignore[arg-type]
    return told(told_in(line), ended)


def result(check: str, verdict: Verdict) -> CheckResult:
    return next(r for r in verdict.results if r.check == check)


def strikes_in(plan: Plan, history: History) -> tuple[Injection, ...]:
    return RunAnalysis(plan, history).injections


@pytest.mark.parametrize("kind", SPARED)
def test_a_worker_that_lives_on_ends_no_attempt_and_is_charged_to_nothing(kind: str) -> None:
    history = spared("g s s r c s i s r c .")

    verdict = judge_each(plan_of(kind, FAULTS[kind]), history, told_in(CLEAN))

    assert verdict.status == "pass", verdict.headline
    assert result("attempts", verdict).measures == {"attempts": 1}
    assert "ended no attempt" in result("recovery", verdict).summary


@pytest.mark.parametrize("kind", SPARED)
def test_a_strike_that_did_not_land_is_never_green(kind: str) -> None:
    history = spared("g s s r c s i s r c .", status="fail")

    verdict = judge_each(plan_of(kind, FAULTS[kind]), history, told_in(CLEAN))

    assert verdict.status == "inconclusive"
    assert result("faults-happened", verdict).summary.endswith("did no harm: seen")


@pytest.mark.parametrize(("kind", "hit"), [("pause_worker", 0), ("hang_worker", 0)])
def test_a_hang_that_time_outs_end_is_the_failure_that_it_is_charged_for(
    kind: str, hit: int
) -> None:
    history = struck("g s s r c s x g<c0 s s r c .")

    (strike,) = strikes_in(plan_of(kind, FAULTS[kind]), history)

    assert strike.hit_attempt == hit


def ended_late(error: str) -> History:
    """Tell of a kill that seemed to do no harm, and of what its attempt failed later."""
    history = struck("g s s r c s x g<c0 s s r c .")
    still = "it still runs after 15 s"
    history = changed(history, ev.FaultEnded, status="fail", detail=still, signal_sent=True)
    return changed(history, ev.FailureDecided, errors={1: error})


@pytest.mark.parametrize(
    "error",
    [
        "WorkerHealthCheckFailedError: The actor is dead because its worker process has died.",
        "ended by SIGTERM",
        "RuntimeError: connection closed by peer",
    ],
)
def test_a_signal_is_the_cause_of_a_later_end_whatever_was_seen_in_time(error: str) -> None:
    plan = plan_of("kill_worker", KillWorker(signal="TERM"))

    verdict = judge(plan, ended_late(error), told_in(CLEAN))

    assert verdict.status == "pass", verdict.headline
    found = result("faults-happened", verdict).summary
    assert found.startswith("it still runs after 15 s")
    assert found.endswith(f"failed later: {error}")
    assert result("retry-budget", verdict).measures["charged_failures"] == 1


def test_an_exception_after_a_signal_that_did_nothing_is_not_the_signal_s() -> None:
    plan = plan_of("kill_worker", KillWorker(signal="TERM"))

    verdict = judge(plan, ended_late("KeyError: 'lr'"), told_in(CLEAN))

    assert verdict.status == "inconclusive"
    assert "did no harm" in result("faults-happened", verdict).summary


def test_a_straggler_is_not_the_cause_of_a_failure() -> None:
    history = struck("g s s r c s x g<c0 s s r c .")

    verdict = judge_each(plan_of("slow_worker", FAULTS["slow_worker"]), history, told_in(CLEAN))

    assert result("retry-budget", verdict).status == "fail"


def test_a_poisoned_step_is_one_strike_for_each_attempt() -> None:
    history = struck("g s s r c s x g<c0 s x g<c0 s x H")

    found = strikes_in(plan_of("poison_step", PoisonStep()), history)

    assert [strike.hit_attempt for strike in found] == [0, 1, 2]
    assert all(len(s.invocations) == len(s.outcomes) == len(s.gates) == 1 for s in found)


def test_a_fault_that_strikes_once_and_was_recorded_twice_is_in_doubt() -> None:
    history = struck("g s s r c s x g<c0 s x g<c0 s s r c .")

    verdict = judge_each(plan_of("kill_worker", KillWorker()), history, told_in(CLEAN))

    assert "was recorded 2 times" in result("faults-happened", verdict).summary


def test_an_attempt_that_was_to_be_struck_and_was_not_is_named() -> None:
    fault = RaiseInWorker(attempts=(0, 1))
    history = struck("g s s r c s x g<c0 s s r c .")

    verdict = judge_each(plan_of("raise_in_worker", fault), history, told_in(CLEAN))

    assert result("faults-happened", verdict).summary.endswith("was never injected into attempt 1")


def test_a_job_that_fails_at_one_place_until_the_limit_goes_in_circles() -> None:
    history = struck("g s s r c s x g<c0 s x g<c0 s x g<c0 s x g<c0 s H")

    verdict = judge_each(plan_of("poison_step", PoisonStep()), history, told_in(CLEAN))

    found = result("progress", verdict)
    assert found.status == "fail"
    expect_finding(found, "repeated-failures", first_attempt=1, last_attempt=3)
    assert "in 4 attempts" in verdict.headline


@pytest.mark.parametrize(
    "line",
    [
        "g s s r c s x g<c0 s x g<c0 s H",  # too few to tell
        "g s s r c s x g<c0 s x g<c0 s x g<c0 s s r c H",  # the last one got on
        "g s s r c s x g<c0 s x g<c0 s x .",  # it ended by itself
    ],
)
def test_a_job_that_gets_on_or_ends_does_not_go_in_circles(line: str) -> None:
    verdict = judge_each(plan_of("poison_step", PoisonStep()), struck(line), told_in(CLEAN))

    assert "circles" not in result("progress", verdict).summary
