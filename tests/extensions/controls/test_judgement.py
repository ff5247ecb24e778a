"""What a run with a planted loss shows, and what it does not."""

import pytest

from chaos.check.evidence import FAULTS_HAPPENED
from chaos.extensions.controls.judgement import judge_loss
from chaos.extensions.controls.selection import Control
from chaos.model.expect import VerdictStatus
from chaos.model.verdict import (
    Anomaly,
    CheckResult,
    ComparedResult,
    ResultName,
    Verdict,
)

MOMENTS = Control("optimizer", "state: optimizer")
COUNT = Control("meter.count", "meter.count")


def result_of(check: str, status: VerdictStatus = "pass", *parts: str) -> CheckResult:
    anomalies = (Anomaly(message="It differs.", parts=parts),) if status == "fail" else ()
    return CheckResult(check=check, status=status, summary="", evidence=1, anomalies=anomalies)


def verdict_of(
    status: VerdictStatus,
    *results: CheckResult,
    headline: str = "It came out.",
    equal: tuple[ResultName, ...] = (),
    has_fault: bool = True,
) -> Verdict:
    compared = [ComparedResult(name=name, status="equal", detail="") for name in equal]
    happened = (result_of(FAULTS_HAPPENED),) if has_fault else ()
    return Verdict(
        status=status,
        headline=headline,
        as_expected=status == "pass",
        expectation="",
        results=(*happened, *results),
        compared=tuple(compared),
    )


@pytest.mark.parametrize(
    ("parts", "is_named"), [(("optimizer.exp_avg",), True), (("optimizer.lr", "model"), False)]
)
def test_a_loss_that_fails_is_found_and_named_if_the_finding_is_about_it(
    parts: tuple[str, ...], is_named: bool
) -> None:
    verdict = verdict_of("fail", result_of("state", "fail", *parts))

    loss = judge_loss(MOMENTS, verdict, {MOMENTS.path})

    assert (loss.result, loss.is_named) == ("found", is_named)


def test_a_value_is_named_by_the_sentence() -> None:
    headline = "the loss differs; at the resume `meter.count` was 0, its first value"
    verdict = verdict_of("fail", result_of("trajectory", "fail"), headline=headline)

    assert judge_loss(COUNT, verdict, {COUNT.path}).is_named


def test_a_metric_of_a_variables_name_is_not_the_variable() -> None:
    headline = "`step` is 3 at the report of epoch 4, 12 in the baseline"
    verdict = verdict_of("fail", result_of("metrics", "fail", "step"), headline=headline)

    assert not judge_loss(Control("step", "step"), verdict, {"step"}).is_named


def test_a_generator_is_named_where_the_sentence_says_that_it_draws_the_data() -> None:
    headline = "likely the place in the data (or a generator that draws it: rng.torch)"
    verdict = verdict_of("fail", result_of("samples", "fail"), headline=headline)

    assert judge_loss(Control("rng.torch", "rng.torch"), verdict, {"rng.torch"}).is_named
    assert not judge_loss(Control("rng.numpy", "rng.numpy"), verdict, {"rng.numpy"}).is_named


def test_a_loss_that_changes_nothing_is_said_to_and_what_was_not_compared_is_not() -> None:
    equal = verdict_of("pass", equal=("steps", "state"))
    unseen = verdict_of("pass", equal=("steps",))

    assert judge_loss(COUNT, equal, {COUNT.path}).result == "no consequence"
    assert judge_loss(COUNT, unseen, {COUNT.path}).result == "not found"


def test_an_open_answer_is_no_pass_and_nothing_found() -> None:
    assert judge_loss(COUNT, verdict_of("inconclusive"), {COUNT.path}).result == "in doubt"


@pytest.mark.parametrize(
    ("verdict", "planted"),
    [
        (verdict_of("fail", result_of("state", "fail", "meter.count")), set[str]()),
        (verdict_of("inconclusive", has_fault=False), {COUNT.path}),
        (verdict_of("fail", result_of("outcome", "fail")), {COUNT.path}),
    ],
    ids=["not set", "no fault", "an error of the job's"],
)
def test_what_shows_nothing_of_a_loss_counts_as_not_planted(
    verdict: Verdict, planted: set[str]
) -> None:
    assert judge_loss(COUNT, verdict, planted).result == "not planted"


def test_a_part_that_the_job_had_back_in_time_was_not_lost() -> None:
    verdict = verdict_of("pass", equal=("steps", "state"))

    loss = judge_loss(MOMENTS, verdict, {MOMENTS.path}, {"optimizer.exp_avg", "model"})

    assert loss.result == "not planted"
