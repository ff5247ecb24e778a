"""The order of what the model was given: sample-order."""

from chaos.model import event as ev
from chaos.model.bounds import Tolerance
from chaos.model.history import History
from chaos.model.verdict import Verdict
from tests.accepted import expect_text
from tests.check.each import judge_each
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.tamper import changed, result_on, verdict_on
from tests.check.watching import inputs
from tests.findings import expect_in_headline

KILLED = Story((Strike(2, 3, 1),))
# Two reports an epoch of four steps: a checkpoint in the middle of each.
MIDWAY = "g s:a s:b r c s:c s:d r c s:d s:a r c s:b s:c r c ."


def verdict(run: str, baseline: str = MIDWAY) -> Verdict:
    return judge_each(plan_of(run), told_in(run), told_in(baseline))


def given(history: History, of: int, epoch: int) -> History:
    """Return that from attempt 1 on an epoch was given the inputs of another."""

    def fed(done: ev.StepDone) -> ev.Inputs:
        return inputs(of, done.step, done.rank, ranks=KILLED.ranks, steps=KILLED.steps)

    where = lambda e: e.attempt == 1 and e.epoch == epoch  # noqa: E731 (one word of a line)
    return changed(history, ev.StepDone, where, inputs=fed)


def test_an_epoch_in_the_order_of_another_is_named() -> None:
    verdict = verdict_on(KILLED, given(KILLED.history(), of=0, epoch=2))

    assert verdict.broken[0].check == "sample-order"
    expect_in_headline(
        verdict,
        "other-epoch-order",
        epoch=2,
        source_epoch=0,
        has_right_start=False,
        severity="not reproducible",
    )
    assert "counts epochs from the resume" in verdict.headline
    assert "(ranks 0 and 1)" in verdict.headline
    (resume,) = verdict.diagnosis
    order = [(p.standing, p.ours) for p in resume.parts if p.group == "data order"]
    assert order == [("reset", "epoch 0"), ("reset", "epoch 0")]


def test_an_order_that_came_twice_after_a_resume_in_the_right_one_is_told_from_it() -> None:
    baseline = "g s:a s:b r c s:c s:d r c s:b s:d r c s:a s:c r c s:d s:c r c s:b s:a r c ."
    run = "g s:a s:b r c x g<c0 s:c s:d r c s:a s:b r c s:c s:d r c s:b s:d r c s:a s:c r c ."
    broken = verdict(run, baseline)

    assert broken.broken[0].check == "sample-order"
    expect_in_headline(
        broken, "other-epoch-order", epoch=2, ranks=(0, 1), source_epoch=0, has_right_start=True
    )
    assert "besides" not in broken.headline  # the epochs after it are of the same part


def test_the_rest_of_a_pass_in_another_order_is_named_where_the_next_pass_follows_in_its_own() -> (
    None
):
    """A pass has six batches, and reports come after its second and its fourth."""
    before = "g s:a s:b r c s:c s:d r c s:e s:f s:d s:f r c s:b s:a r c"
    broken = verdict(
        f"{before} s:c x g<c3 s:e s:f s:c s:e r c .", f"{before} s:c s:e s:c s:e r c ."
    )

    assert broken.broken[0].check == "sample-order"
    expect_in_headline(
        broken,
        "other-epoch-order",
        epoch=4,
        source_epoch=2,
        has_right_start=False,
        steps={"first": 1, "last": 2},
    )


def test_inputs_of_the_middle_of_two_epochs_are_no_epochs_order() -> None:
    """A pass has six batches, and reports come after four: the pass begins anew at the resume."""
    twice = "g s:a s:b s:c s:d r c s:e s:f s:a s:b r c"
    broken = verdict(f"{twice} s:c x g<c1 s:a s:b s:c s:d r c .", f"{twice} s:c s:d s:e s:f r c .")

    assert broken.broken[0].check == "sample-order"
    expect_in_headline(broken, "inputs-shifted", epoch=2, step=1, offset=-2)


def test_an_order_that_was_drawn_anew_is_told_with_its_first_step() -> None:
    verdict = verdict_on(KILLED, given(KILLED.history(), of=77, epoch=3))

    assert verdict.broken[0].check == "sample-order"
    expect_in_headline(verdict, "samples-reordered", epoch=3, step=1, severity="not reproducible")


def test_an_order_that_the_baseline_never_had_is_other_inputs_in_the_diagnosis() -> None:
    (resume,) = verdict_on(KILLED, given(KILLED.history(), of=77, epoch=2)).diagnosis

    order = [(p.standing, p.ours) for p in resume.parts if p.group == "data order"]
    assert order == [("different", "other inputs"), ("different", "other inputs")]


def test_steps_that_were_watched_in_neither_run_are_not_counted_as_compared() -> None:
    def unwatched(history: History) -> History:
        return changed(history, ev.StepDone, lambda e: e.epoch in (0, 3), inputs=None)

    results = judge_each(
        KILLED.plan(), unwatched(KILLED.history()), unwatched(KILLED.baseline())
    ).results

    order = next(r for r in results if r.check == "sample-order")
    assert order.measures == {"inputs_compared": 24, "control_inputs": 18}


def test_inputs_that_nothing_seeds_are_not_compared() -> None:
    def fed(done: ev.StepDone) -> ev.Inputs:
        epoch = done.epoch + 50
        return inputs(epoch, done.step, done.rank, ranks=KILLED.ranks, steps=KILLED.steps)

    history = changed(KILLED.history(), ev.StepDone, inputs=fed)

    order, samples = (
        result_on("sample-order", KILLED, history),
        result_on("samples", KILLED, history),
    )
    assert (order.status, samples.status) == ("inconclusive", "pass")
    assert "they do not repeat here" in order.summary
    tolerant = result_on("sample-order", KILLED, history, loss_tolerance=Tolerance(relative=0.1))
    assert tolerant.status == "pass"


def test_samples_that_are_drawn_with_replacement_and_no_seed_are_not_compared() -> None:
    def fed(done: ev.StepDone) -> ev.Inputs:
        step = 1 + done.step // 2
        return inputs(done.epoch, step, done.rank, ranks=KILLED.ranks, steps=KILLED.steps)

    history = changed(KILLED.history(), ev.StepDone, inputs=fed)

    assert result_on("samples", KILLED, history).status == "inconclusive"
    tolerant = result_on("samples", KILLED, history, loss_tolerance=Tolerance(relative=0.1))
    assert (tolerant.status, tolerant.evidence) == ("pass", 0)


def test_samples_of_another_epoch_are_no_order_of_ones_own() -> None:
    base = "g s:ab s:cd r c s:ef s:gh r c s:ij s:kl r c ."
    found = verdict("g s:ab s:cd r c s:ef x g<c0 s:ab s:cd r c s:ef s:gh r c .", base)

    assert found.broken[0].check == "sample-order"
    expect_in_headline(found, "other-epoch-samples", epoch=1, ranks=(0, 1), source_epoch=0)
    assert "order of" not in found.headline


def test_a_generator_that_began_anew_may_have_drawn_samples_of_another_epoch() -> None:
    base = "g @model=7,rng=1 s:ab s:cd r c @model=8,rng=2 s:ef s:gh r c ."
    line = (
        "g @model=7,rng=1 s:ab s:cd r c @model=8,rng=2 s:ef x g<c0 @model=8,rng=1 s:ab s:cd r c ."
    )
    found = verdict(line, base)

    assert found.broken[0].check == "sample-order"
    expect_in_headline(found, "other-epoch-samples", generators=("rng.torch",))
    state = next(result for result in found.results if result.check == "state")
    assert state.measures["components_without_consequence"] is None


def test_an_epoch_without_its_first_step_is_not_said_to_be_in_its_own_order() -> None:
    base = "g s:a s:b s:c r c s:d s:e s:f r c ."
    found = verdict("g s:a s:b s:c r c s:d x g<c0 s:e s:f r c .", base)

    assert found.status == "fail"
    assert not any("order of epoch 1" in result.summary for result in found.results)


def test_inputs_that_were_not_seen_after_the_resume_are_not_known_to_be_right() -> None:
    unseen = changed(KILLED.history(), ev.StepDone, lambda e: e.attempt == 1, inputs=None)

    verdict = verdict_on(KILLED, unseen)

    for undecided in verdict.undecided:
        expect_text(undecided.summary, undecided.check)
    assert {r.check for r in verdict.undecided} == {"batch", "sample-order", "samples"}


def test_inputs_that_were_not_watched_are_not_due() -> None:
    unwatched = Story(KILLED.strikes, watch=False)

    for check in ("samples", "sample-order"):
        assert result_on(check, unwatched).status == "pass"
        assert result_on(check, unwatched).evidence == 0
        blind = changed(KILLED.history(), ev.StepDone, inputs=None)
        assert result_on(check, KILLED, blind).status == "inconclusive"
