"""What the model was given: sample-order, samples, batch, and the cursor that inputs tell of."""

from chaos.model import event as ev
from chaos.model.bounds import Tolerance
from chaos.model.history import History
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


def test_a_smaller_batch_after_other_samples_is_told_behind_them() -> None:
    """A loader that went back runs out of samples early."""
    before = "g s:ab/cd s:ef/gh r c"
    broken = verdict(f"{before} x g<c0 s:ab/kl s:m/op r c .", f"{before} s:ij/kl s:mn/op r c .")

    assert [result.check for result in broken.broken][:2] == ["samples", "batch"]
    expect_in_headline(
        broken, "epoch-samples-uneven", sample_count=8, missing_count=3, surplus_count=2
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


def test_inputs_that_were_not_seen_after_the_resume_are_not_known_to_be_right() -> None:
    unseen = changed(KILLED.history(), ev.StepDone, lambda e: e.attempt == 1, inputs=None)

    verdict = verdict_on(KILLED, unseen)

    for undecided in verdict.undecided:
        expect_text(undecided.summary, undecided.check)
    assert {r.check for r in verdict.undecided} == {"batch", "sample-order", "samples"}


def test_an_epoch_whose_inputs_were_not_all_seen_is_not_counted() -> None:
    where = lambda e: (e.attempt, e.epoch, e.step, e.rank) == (1, 2, 4, 0)  # noqa: E731
    samples = result_on(
        "samples", KILLED, changed(KILLED.history(), ev.StepDone, where, inputs=None)
    )

    assert (samples.status, samples.evidence) == ("pass", 3)
    expect_text(samples.summary)


def test_inputs_that_were_not_watched_are_not_due() -> None:
    unwatched = Story(KILLED.strikes, watch=False)

    for check in ("samples", "sample-order"):
        assert result_on(check, unwatched).status == "pass"
        assert result_on(check, unwatched).evidence == 0
        blind = changed(KILLED.history(), ev.StepDone, inputs=None)
        assert result_on(check, KILLED, blind).status == "inconclusive"


def test_where_the_baseline_lacks_inputs_of_every_epoch_as_well_no_samples_are_due() -> None:
    def generators(event: ev.StepDone) -> bool:
        return event.step % 2 == 0

    ours = changed(KILLED.history(), ev.StepDone, generators, inputs=None)
    theirs = changed(KILLED.baseline(), ev.StepDone, generators, inputs=None)

    found = judge_each(KILLED.plan(), ours, theirs)

    samples = next(result for result in found.results if result.check == "samples")
    assert samples.status == "pass"
    expect_text(samples.summary)
