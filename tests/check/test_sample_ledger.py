"""The samples of each finished epoch: missing, repeated, and not to be known."""

from chaos.model import event as ev
from chaos.model.verdict import Verdict
from tests.accepted import expect_text
from tests.check.each import judge_each
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.tamper import changed, result_on, verdict_on, without
from tests.check.watching import inputs
from tests.findings import expect_finding, expect_in_headline

KILLED = Story((Strike(2, 3, 1),))
# Two reports an epoch of four steps: a checkpoint in the middle of each.
MIDWAY = "g s:a s:b r c s:c s:d r c s:d s:a r c s:b s:c r c ."


def verdict(run: str, baseline: str = MIDWAY) -> Verdict:
    return judge_each(plan_of(run), told_in(run), told_in(baseline))


def test_samples_that_are_missing_and_repeated_are_counted() -> None:
    def fed(done: ev.StepDone) -> ev.Inputs:
        return inputs(2, 1, done.rank, ranks=KILLED.ranks, steps=KILLED.steps)

    where = lambda e: (e.attempt, e.epoch, e.step) == (1, 2, 4)  # noqa: E731 (one word of a line)
    history = changed(KILLED.history(), ev.StepDone, where, inputs=fed)

    verdict = verdict_on(KILLED, history)

    assert verdict.broken[0].check == "samples"
    expect_in_headline(
        verdict, "epoch-samples-uneven", epoch=2, sample_count=24, missing_count=4, surplus_count=4
    )


def test_samples_that_were_trained_before_the_save_are_counted() -> None:
    """A pass has four batches, and reports come after its second: the loader begins anew."""
    half = "g s:abcd/efgh s:ijkl/mnop r c"
    base = f"{half} s:qrst/uvwx s:yzAB/CDEF r c ."
    broken = verdict(f"{half} s:qrst/uvwx x g<c0 s:abcd/efgh s:ijkl/mnop r c .", base)

    expect_in_headline(broken, "other-epoch-samples", epoch=1, source_epoch=0, repeated_samples=16)


def test_samples_drawn_with_replacement_are_not_due_once() -> None:
    first, last = "g s:ab/ca s:da/be r c", "s:ia/jb s:ka/lc r c ."
    base = f"{first} s:fa/gb s:ch/ad r c {last}"
    run = f"{first} s:fa/gb x g<c0 s:cc/ah s:fb/ga r c {last}"
    results = {result.check: result for result in verdict(run, base).results}

    assert results["samples"].status != "fail"
    expect_finding(results["sample-order"], "other-samples-drawn", epoch=1, ranks=(0, 1), step=1)


def test_where_no_epoch_was_finished_on_both_sides_samples_are_not_known_to_be_right() -> None:
    baseline = without(KILLED.baseline(), ev.Committed)
    hung = without(KILLED.history(), ev.FitReturned)

    results = judge_each(KILLED.plan(), hung, baseline).results

    assert next(r for r in results if r.check == "samples").status == "inconclusive"


def test_at_least_once_forgives_what_was_lost_and_no_more() -> None:
    base = "g s:ab s:cd r c s:da s:bc r c ."
    run = "g s:ab s:cd r c s:da x g<c0 s:da s:bca r c ."
    twice = "g s:ab s:cd r c s:da x g<c0 s:da s:bcadabcd r c ."

    def samples(line: str, **expect: str) -> str:
        results = judge_each(plan_of(line, **expect), told_in(line), told_in(base)).results
        return next(r.status for r in results if r.check == "samples")

    assert samples(run) == "fail"
    assert samples(run, sampling="at_least_once") == "pass"
    assert samples(twice, sampling="at_least_once") == "fail"


def test_samples_that_the_baseline_never_saw_are_augmented_anew() -> None:
    base = "g s:ab s:cd r c s:ef s:gh r c ."
    found = verdict("g s:ab s:cd r c s:ef x g<c0 s:uv s:wx r c .", base)

    samples = next(result for result in found.results if result.check == "samples")
    assert samples.status == "inconclusive"
    expect_text(samples.summary)


def test_an_epoch_whose_inputs_were_not_all_seen_is_not_counted() -> None:
    where = lambda e: (e.attempt, e.epoch, e.step, e.rank) == (1, 2, 4, 0)  # noqa: E731
    samples = result_on(
        "samples", KILLED, changed(KILLED.history(), ev.StepDone, where, inputs=None)
    )

    assert (samples.status, samples.evidence) == ("pass", 3)
    expect_text(samples.summary)


def test_where_the_baseline_lacks_inputs_of_every_epoch_as_well_no_samples_are_due() -> None:
    def generators(event: ev.StepDone) -> bool:
        return event.step % 2 == 0

    ours = changed(KILLED.history(), ev.StepDone, generators, inputs=None)
    theirs = changed(KILLED.baseline(), ev.StepDone, generators, inputs=None)

    found = judge_each(KILLED.plan(), ours, theirs)

    samples = next(result for result in found.results if result.check == "samples")
    assert samples.status == "pass"
    expect_text(samples.summary)
