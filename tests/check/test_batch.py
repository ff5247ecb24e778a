"""The size of a batch, by its samples and its micro-batches."""

from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.verdict import Verdict
from tests.check.each import judge_each
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.tamper import changed, result_on
from tests.check.watching import inputs
from tests.findings import expect_finding, expect_in_headline

KILLED = Story((Strike(2, 3, 1),))
# Two reports an epoch of four steps: a checkpoint in the middle of each.
MIDWAY = "g s:a s:b r c s:c s:d r c s:d s:a r c s:b s:c r c ."


def verdict(run: str, baseline: str = MIDWAY) -> Verdict:
    return judge_each(plan_of(run), told_in(run), told_in(baseline))


def test_a_smaller_batch_after_other_samples_is_told_behind_them() -> None:
    """A loader that went back runs out of samples early."""
    before = "g s:ab/cd s:ef/gh r c"
    broken = verdict(f"{before} x g<c0 s:ab/kl s:m/op r c .", f"{before} s:ij/kl s:mn/op r c .")

    assert [result.check for result in broken.broken][:2] == ["samples", "batch"]
    expect_in_headline(
        broken, "epoch-samples-uneven", sample_count=8, missing_count=3, surplus_count=2
    )


def test_a_batch_whose_losses_were_never_resolved_is_judged_by_its_samples() -> None:
    where = lambda e: (e.attempt, e.rank, e.epoch, e.step) == (1, 1, 2, 4)  # noqa: E731
    fewer = inputs(2, 4, 1, ranks=KILLED.ranks, steps=KILLED.steps)
    history = changed(
        KILLED.history(),
        ev.StepDone,
        where,
        losses=None,
        inputs=ev.Inputs(count=1, digest=fewer.digest, samples=fewer.samples),
    )

    result = result_on("batch", KILLED, history)

    expect_finding(
        result, "batch-size-differs", place=(2, 4), samples={"run_total": 3, "baseline_total": 4}
    )


def test_fewer_micro_batches_are_a_smaller_batch() -> None:
    base = "g s:ab*2 s:cd*2 r c s:ab*2 s:cd*2 r c ."
    found = verdict("g s:ab*2 s:cd*2 r c s:ab*2 x g<c0 s:a s:cd*2 r c .", base)

    assert found.broken[0].check == "batch"
    expect_in_headline(
        found,
        "batch-size-differs",
        place=(1, 1),
        samples={"run_total": 2, "baseline_total": 4},
        micro_batches={"run_total": 2, "baseline_total": 4},
    )


def without_losses(history: History, rank: int) -> History:
    """Return the history that does not tell the losses of attempt 1's first step on a rank."""

    def hit(done: ev.StepDone) -> bool:
        return (done.attempt, done.rank, done.step) == (1, rank, 1)

    return changed(history, ev.StepDone, hit, losses=None)


def test_losses_that_were_never_resolved_are_unknown_and_not_none() -> None:
    base = "g s:ab*2 s:cd*2 r c s:ab*2 s:cd*2 r c ."
    line = "g s:ab*2 s:cd*2 r c s:ab*2 x g<c0 s:a s:cd*2 r c ."
    one = without_losses(told_in(line), 1)

    some = judge_each(plan_of(line), one, told_in(base)).broken[0]
    none = judge_each(plan_of(line), without_losses(one, 0), told_in(base)).broken[0]

    samples = {"run_total": 2, "baseline_total": 4}
    micro_batches: dict[str, object] = {"run_total": 1, "baseline_total": 2, "unknown_ranks": (1,)}
    expect_finding(
        some, "batch-size-differs", place=(1, 1), samples=samples, micro_batches=micro_batches
    )
    micro_batches = {"rank_count": 0, "unknown_ranks": (0, 1)}
    expect_finding(
        none, "batch-size-differs", place=(1, 1), samples=samples, micro_batches=micro_batches
    )


def test_an_unknown_number_of_micro_batches_is_no_smaller_batch() -> None:
    base = "g s:ab/cd*2 s:ab*2 r c s:ab/cde*2 s:ab*2 r c ."
    line = "g s:ab/cd*2 s:ab*2 r c s:ab/cde*2 x g<c0 s:abc/de*2 s:ab*2 r c ."

    found = judge_each(plan_of(line), without_losses(told_in(line), 1), told_in(base))

    assert "batch" not in [result.check for result in found.broken]


def test_batches_that_vary_by_themselves_are_not_compared() -> None:
    base = "g s*2 s r c s*2 s r c ."
    found = verdict("g s s*2 r c s x g<c0 s s*2 r c .", base)

    assert "batch" not in [result.check for result in found.broken]
