"""Attempts that did not go on from the newest of their own saves."""

import pytest

from chaos.model.verdict import CheckResult, Verdict
from tests.check.each import judge_each
from tests.check.shorthand import plan_of, told_in
from tests.findings import expect_finding, expect_in_headline

BASELINE = "g s w:f_1 s r c- s w:f_2 s r c- s w:f_10 s r c- s w:f_11 s r c- ."


def verdict(run: str, baseline: str = BASELINE) -> Verdict:
    return judge_each(plan_of(run), told_in(run), told_in(baseline))


def result(check: str, run: str, baseline: str = BASELINE) -> CheckResult:
    return next(r for r in verdict(run, baseline).results if r.check == check)


def test_a_job_that_reads_none_of_its_files_started_from_scratch() -> None:
    found = verdict("g s w:f_1 s r c- s w:f_2 s r c- s x g s s r c- s s r c- .")

    assert found.broken[0].check == "resume-point"
    expect_in_headline(found, "saves-ignored", attempt=1, newest={"path": "f_2", "place": (1, 1)})


def test_a_save_that_was_set_aside_was_in_use_and_is_lost_by_beginning_anew() -> None:
    first = "g s w:t_1 m:t_1>f s r c- s m:f>g w:t_2 x "
    anew = "g q:g s w:t_1 m:t_1>f s r c- s x g q:f l:f s s r c- ."

    found = verdict(first + anew)

    expect_in_headline(found, "saves-ignored", attempt=1, newest={"path": "g", "place": (0, 1)})


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ("q:f_1,f_2-", "although f_1 of epoch 0, step 1 was there: no rank read it"),
        ("q:f_1-,f_2~", "f_2 of epoch 1, step 1 lay in the temporary folder of another node"),
        ("q", "f_2 of epoch 1, step 1 was not there any more, and nothing else was"),
    ],
)
def test_an_attempt_that_began_anew_says_what_became_of_the_saves(seen: str, words: str) -> None:
    run = f"g s w:f_1 s r c- s w:f_2 s r c- s x g {seen} s s r c- s s r c- ."

    assert words in result("resume-point", run).summary


def test_a_save_that_went_with_its_node_is_said_to_have_lain_there() -> None:
    run = "g s w:f_1 s r c- s n X g q:f_1- s s r c- s s r c- ."

    expect_finding(
        result("resume-point", run, "g s w:f_1 s r c- s s r c- ."),
        "saves-gone",
        attempt=1,
        newest={"path": "f_1", "place": (0, 1)},
        loss="on a lost node's disk",
        severity="work lost",
    )
