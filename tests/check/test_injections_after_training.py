"""A worker or a node that is lost when training is over: no failure is due for it."""

from typing import Any

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtState, AtTime, Trigger
from chaos.model.verdict import Verdict
from tests.check.each import judge_each
from tests.check.story import Story, Strike
from tests.check.tamper import changed, told, without

CLEAN = Story()
WHO: dict[str, Any] = {"attempt": 0, "rank": 1, "pid": 1001, "node_id": "node-0-1"}
AT_THE_END = AtState(state="SHUTTING_DOWN", rank=1)
ENDS = ev.ControllerState(previous="RUNNING", state="SHUTTING_DOWN")
STRUCK: tuple[ev.AnyEvent, ...] = (
    ev.FaultInvoked(op=0, fault="kill_worker", **WHO),
    ev.FaultEnded(op=0, status="ok", detail="pid 1001 is gone"),
)


def plan_of(at: Trigger = AT_THE_END, **fault: Any) -> Plan:
    op = Op(index=0, at=at, **(fault or {"kill_worker": KillWorker()}))
    return CLEAN.plan().model_copy(update={"ops": (op,)})


def judged(history: History, plan: Plan | None = None) -> Verdict:
    return judge_each(plan or plan_of(), history, CLEAN.baseline())


def result(verdict: Verdict, check: str) -> str:
    return next(r.status for r in verdict.results if r.check == check)


def struck_at_the_end() -> History:
    return told(CLEAN.history(), ENDS, *STRUCK, before=ev.FitReturned)


@pytest.mark.parametrize("fault", [{"kill_worker": KillWorker()}, {"kill_node": KillNode()}])
def test_whoever_is_lost_once_training_is_over_need_not_be_charged_for(fault: Any) -> None:
    verdict = judged(struck_at_the_end(), plan_of(**fault))

    assert verdict.status == "pass", verdict.headline
    assert "as Ray's controller came to SHUTTING_DOWN; the job came out" in verdict.headline


def test_a_fit_that_raises_for_it_is_found() -> None:
    raised = ev.FitRaised(error="ControllerError", message="a worker died")
    history = told(CLEAN.history(), ENDS, *STRUCK, raised, before=ev.FitReturned)
    history = changed(without(history, ev.FitReturned), ev.DriverExited, code=1)

    assert result(judged(history), "outcome") == "fail"


def test_another_result_for_it_is_found() -> None:
    last = [e for _, e in CLEAN.history().select_events(ev.Committed)][-1].metrics[0]
    reference = changed(CLEAN.baseline(), ev.FitReturned, metrics=last)
    as_due = changed(struck_at_the_end(), ev.FitReturned, metrics=last)
    other = changed(struck_at_the_end(), ev.FitReturned, metrics={**last, "epoch": 0})

    assert result(judge_each(plan_of(), as_due, reference), "outcome") == "pass"
    assert result(judge_each(plan_of(), other, reference), "outcome") == "fail"


def test_a_charge_for_it_that_ends_in_a_restart_is_due_once() -> None:
    """Ray did not yet know that training was over, and trained on."""
    story = Story((Strike(3, 5, 1),))
    at = AtTime(seconds=1, rank=1)
    plan = story.plan().model_copy(update={"ops": plan_of(at).ops})

    assert RunAnalysis(plan, story.history(), story.baseline()).hits.keys() == {0}


def test_a_loss_while_training_went_on_must_be_charged_for() -> None:
    during = told(CLEAN.history(), *STRUCK, before=ev.Committed)
    verdict = judged(told(during, ENDS, before=ev.FitReturned), plan_of(AtTime(seconds=1, rank=1)))

    assert result(verdict, "retry-budget") == "fail"


@pytest.mark.parametrize("is_told", [True, False])
def test_a_time_that_comes_after_training_struck_nobody(is_told: bool) -> None:
    """By Ray's own word, or by that of every train function."""
    events = (ENDS, *STRUCK) if is_told else STRUCK
    history = told(CLEAN.history(), *events, before=ev.FitReturned)
    history = history if is_told else without(history, ev.ControllerState)

    verdict = judged(history, plan_of(AtTime(seconds=1, rank=1)))

    assert verdict.status == "inconclusive"
    assert "training was over before it was injected" in verdict.headline


def test_one_train_function_that_returned_does_not_end_training() -> None:
    history = without(struck_at_the_end(), ev.ControllerState)
    history = without(history, ev.TrainFnEnded, lambda e: e.rank == 1)

    verdict = judged(history, plan_of(AtTime(seconds=1, rank=1)))

    assert result(verdict, "retry-budget") == "fail"
