"""Two optimizers in one loop, the second of which steps after some batches alone."""

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.verdict import CheckResult
from tests.check.story import Story, Strike
from tests.check.tamper import changed, without

KILLED = Story((Strike(2, 3, 1),), steps=8)
SECOND = "1 (SGD)"


def named(history: History, *steps: int, since: int = 0, name: str = SECOND) -> History:
    """Return that the second optimizer made these steps of each epoch, from an attempt on."""

    def hit(done: ev.StepDone) -> bool:
        return done.attempt >= since and done.step in steps

    return changed(history, ev.StepDone, hit, optimizer=name, losses=())


def cursor(run: History, baseline: History) -> CheckResult:
    verdict = judge(KILLED.plan(), run, baseline)
    return next(result for result in verdict.results if result.check == "cursor")


def test_two_optimizers_that_step_as_in_the_baseline_are_right() -> None:
    run, baseline = (named(h, 3, 6) for h in (KILLED.history(), KILLED.baseline()))

    assert judge(KILLED.plan(), run, baseline).status == "pass"


def test_an_optimizer_that_steps_after_other_batches_skips_none() -> None:
    baseline = named(KILLED.baseline(), 3, 6)
    run = without(
        KILLED.history(), ev.StepDone, lambda e: (e.attempt, e.epoch, e.step) == (1, 2, 8)
    )
    run = named(run, 3, 6)
    # Of epoch 2 the second optimizer made one step, its seventh, and six batches came with it.
    run = changed(run, ev.StepDone, lambda e: (e.attempt, e.epoch) == (1, 2), optimizer="")
    run = changed(
        run, ev.StepDone, lambda e: (e.attempt, e.epoch, e.step) == (1, 2, 7), optimizer=SECOND
    )

    found = cursor(run, baseline)

    assert found.status == "fail"
    assert found.anomalies[0].message == (
        "rank 0: optimizer 1 (SGD) stepped after batch 18, and in the baseline after batches 14, "
        "16, after the restart at epoch 2, step 0"
    )
    assert not any("skipped" in each.message for each in found.anomalies)


def test_an_optimizer_that_the_baseline_does_not_have_counts_as_any_other() -> None:
    """Another attempt may lack one of an earlier phase, and number the others anew."""
    baseline = named(KILLED.baseline(), *range(1, 9))
    run = named(KILLED.history(), *range(1, 9), since=0)
    run = changed(run, ev.StepDone, lambda e: e.attempt == 1, optimizer="")

    assert cursor(run, baseline).status == "pass"


def test_a_batch_that_is_skipped_is_counted_by_batches() -> None:
    baseline = named(KILLED.baseline(), 3, 6)
    run = without(
        KILLED.history(), ev.StepDone, lambda e: (e.attempt, e.epoch, e.step) == (1, 2, 8)
    )
    run = named(run, 3, 6)

    assert "rank 0 skipped 1 step of epoch 2 after the restart: 5 instead of 6" in (
        cursor(run, baseline).summary
    )
