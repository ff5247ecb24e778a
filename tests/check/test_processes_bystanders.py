"""`bystanders`: an experiment's other trials, undisturbed, disturbed, and out of sight."""

from typing import Any

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.check.processes import check_bystanders
from chaos.model.event import BystanderSeen, ExperimentEnded, FaultInvoked
from chaos.model.history import History
from chaos.model.verdict import CheckResult
from tests.accepted import expect_text
from tests.check.story import Story, Strike
from tests.check.tamper import rows, told

STRUCK = Story((Strike(2, 3, 1),))
LOSSES = {"rank 0, epoch 0": "a", "rank 0, epoch 1": "b"}


def beside(trial: int = 1, **fields: Any) -> BystanderSeen:
    calm = {"attempts": 1, "failures": 0, "steps": 8, "losses": LOSSES, "finished": True}
    return BystanderSeen(trial=trial, **{"began_ns": 0, "ended_ns": 1 << 62, **calm, **fields})


def judged(
    *seen: BystanderSeen,
    alone: tuple[BystanderSeen, ...] = (beside(),),
    trial: int | None = 0,
    baseline: History | None = None,
    made: int | None = 2,
    **expect: Any,
) -> CheckResult:
    plan = STRUCK.plan(**expect)
    plan = plan.model_copy(update={"job": plan.job.model_copy(update={"trial": trial})})
    tune = () if made is None else (ExperimentEnded(trials=made),)
    reference = told(STRUCK.baseline(), *tune, *alone) if baseline is None else baseline
    return check_bystanders.check(RunAnalysis(plan, told(STRUCK.history(), *seen), reference))


def test_a_trial_that_ran_as_in_the_baseline_did_not_notice() -> None:
    result = judged(beside())

    assert (result.status, result.evidence) == ("pass", 8)
    expect_text(result.summary)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"attempts": 2}, "was begun again: 2 attempts"),
        ({"failures": 1}, "was charged for 1 failure"),
        ({"finished": False, "error": "TrainingFailedError"}, "its fit() raised TrainingFailed"),
        ({"finished": False}, "did not end"),
        ({"losses": {**LOSSES, "rank 0, epoch 1": "c"}}, "baseline: rank 0, epoch 1"),
        ({"losses": {"rank 0, epoch 0": "a"}}, "baseline: rank 0, epoch 1"),
        ({"losses": {}}, "baseline: rank 0, epoch 0 and 1 more places"),
    ],
)
def test_a_trial_that_noticed_is_named_with_what_it_noticed(
    fields: dict[str, Any], words: str
) -> None:
    result = judged(beside(**fields))

    assert result.status == "fail"
    anomaly = result.anomalies[0]
    assert (anomaly.facts["trial"], anomaly.severity) == (1, "wrong result")
    assert words in result.anomalies[0].message


def test_what_was_not_seen_proves_nothing() -> None:
    assert judged().summary == "trial 1 was not seen"
    expect_text(judged(beside(), beside(2)).summary)
    assert judged(beside(), alone=(beside(attempts=2),)).status == "inconclusive"
    assert judged(beside(losses={}), alone=(beside(losses={}),)).status == "inconclusive"
    assert judged(beside(), baseline=History([])).status == "inconclusive"


def test_ray_tunes_own_count_tells_a_trial_that_nobody_saw_from_one_that_never_was() -> None:
    nobody = judged(alone=(), made=3)
    assert nobody.status == "inconclusive"
    expect_text(nobody.summary)
    assert judged(beside(), made=3).status == "inconclusive"
    assert "did not say" in judged(beside(), made=None).summary
    assert judged(alone=(), made=None).status == "inconclusive"


def test_a_trial_that_was_over_before_the_fault_struck_has_shown_nothing() -> None:
    (number,) = rows(STRUCK.history(), FaultInvoked)
    at = STRUCK.history().time_ns(number)

    before, after = judged(beside(ended_ns=at - 1)), judged(beside(began_ns=at + 1))

    assert before.summary == after.summary
    expect_text(before.summary)
    assert judged(beside(began_ns=at, ended_ns=at)).status == "pass"


def test_losses_that_may_differ_are_not_compared() -> None:
    other = beside(losses={"rank 0, epoch 0": "z"})

    result = judged(other, loss_tolerance={"relative": 0.1})

    assert result.status == "pass"
    expect_text(result.summary)
    assert judged(beside(failures=1), loss_tolerance={"relative": 0.1}).status == "fail"


def test_in_the_baseline_each_trial_is_its_own_measure() -> None:
    plan = STRUCK.plan().build_baseline_plan()
    plan = plan.model_copy(update={"job": plan.job.model_copy(update={"trial": 0})})
    tune = ExperimentEnded(trials=2)
    right, wrong = (told(STRUCK.baseline(), tune, seen) for seen in (beside(), beside(attempts=2)))

    assert check_bystanders.check(RunAnalysis(plan, right)).status == "pass"
    assert check_bystanders.check(RunAnalysis(plan, wrong)).status == "fail"


def test_nothing_is_due_of_a_job_that_is_no_experiment_or_has_one_trial() -> None:
    assert (judged(trial=None).status, judged(trial=None).evidence) == ("pass", 0)
    expect_text(judged(alone=(), made=1).summary)
