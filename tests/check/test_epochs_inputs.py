"""The place in training that inputs show: no epoch twice, and none left out."""

from chaos.model.verdict import Verdict
from tests.check.each import judge_each
from tests.check.shorthand import plan_of, told_in
from tests.findings import expect_in_headline

# Two reports an epoch of four steps: a checkpoint in the middle of each.
MIDWAY = "g s:a s:b r c s:c s:d r c s:d s:a r c s:b s:c r c ."


def verdict(run: str, baseline: str = MIDWAY) -> Verdict:
    return judge_each(plan_of(run), told_in(run), told_in(baseline))


def test_a_job_that_goes_back_to_the_head_of_an_epoch_trained_steps_again() -> None:
    found = verdict("g s:a s:b r c s:c s:d r c s:d s:a r c s:b x g<c2 s:d s:a r c s:b s:c r c .")

    assert found.broken[0].check == "cursor"
    expect_in_headline(found, "inputs-trained-again", epoch=3, steps=2)


def test_a_finished_epoch_that_is_trained_again_is_a_step_back() -> None:
    base = "g s:ab s:cd r c s:da s:bc r c s:bd s:ac r c ."
    found = verdict("g s:ab s:cd r c s:da s:bc r c s:bd x g<c1 s:da s:bc r c s:bd s:ac r c .", base)

    assert found.broken[0].check == "cursor"
    expect_in_headline(found, "inputs-trained-again", attempt=1, epoch=2, steps=2)


def test_an_epoch_that_is_left_out_is_a_step_ahead() -> None:
    base = "g s:ab s:cd r c s:da s:bc r c s:bd s:ac r c ."
    found = verdict("g s:ab s:cd r c s:da x g<c0 s:bd s:ac r c .", base)

    assert found.broken[0].check == "cursor"
    assert "attempt 1 went ahead" in found.headline
