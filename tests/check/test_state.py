"""What came back of the job's state at a resume: state, and the resume point that it shows."""

import pytest

from chaos.check.judge import judge
from chaos.check.kinds.state import PartFacts
from chaos.check.part_facts import build_part_value
from chaos.check.prose.state import describe_values
from chaos.model import event as ev
from chaos.model.bounds import Tolerance
from chaos.model.history import History
from chaos.model.launcher import LAUNCHER_FACTS
from chaos.model.places import TrainingPlace
from chaos.model.verdict import CheckResult
from tests.accepted import expect_text
from tests.check.parts import KILLED, TWICE, fresh, lost, part
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.tamper import changed, restored_wrong, result_on, shifted, verdict_on, without
from tests.check.watching import digest
from tests.findings import expect_finding, expect_in_headline


@pytest.mark.parametrize("story", [KILLED, TWICE, Story((Strike(0, 2),)), Story(every=2)])
def test_what_came_back_is_valid(story: Story) -> None:
    assert result_on("state", story).status == "pass"


def test_a_part_that_is_missing_is_not_restored() -> None:
    verdict = verdict_on(KILLED, lost("optimizer.momentum_buffer"))

    assert verdict.broken[0].check == "state"
    expect_in_headline(
        verdict,
        "part-not-restored",
        part="optimizer.momentum_buffer",
        ranks=(0, 1),
        standing="not restored",
        resumed_at=(2, 0),
        value=None,
        expected_value={"size": 1.714},
        hint="optimizer",
    )
    assert verdict.headline.startswith("Rank 1 was killed at epoch 2,")
    assert ". From epoch 2, step 2 on," in verdict.headline


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("model", "model"),
        ("optimizer.lr", "optimizer settings"),
        ("schedule", "schedule"),
        ("ema", "averaged model"),
    ],
)
def test_a_part_that_is_as_at_the_beginning_is_reset(name: str, hint: str) -> None:
    verdict = verdict_on(KILLED, lost(name, fresh(name)))

    assert verdict.broken[0].check == "state"
    expect_in_headline(
        verdict, "part-not-restored", part=name, standing="reset", resumed_at=(2, 0), hint=hint
    )
    assert part(verdict, name).standing == "reset"


def test_a_part_that_is_neither_is_different_and_its_rank_is_named() -> None:
    odd = ev.Component(name="ema", digest="odd", size=7.0)
    verdict = verdict_on(KILLED, lost("ema", odd, rank=1))

    expect_in_headline(verdict, "part-not-restored", part="ema", ranks=(1,), standing="different")
    assert part(verdict, "ema", 1).standing == "different"
    assert part(verdict, "ema", 0).standing == "restored"


def pending(name: str) -> ev.Component:
    return ev.Component(name=name, digest="", count=0, pending=True)


@pytest.mark.parametrize("name", ["model", "optimizer.momentum_buffer"])
def test_a_part_that_the_first_step_will_make_is_not_said_to_be_gone(name: str) -> None:
    entered = restored_wrong(KILLED.history(), name, pending(name), moment="entered")

    result = result_on("state", KILLED, entered)

    assert result.status == "pass"
    assert part(verdict_on(KILLED, entered), name).standing == "not compared"


def test_what_was_pending_and_came_wrong_is_seen_by_the_numbers() -> None:
    verdict = verdict_on(KILLED, lost("model", pending("model"), moment="entered"))

    assert (verdict.status, verdict.broken[0].check) == ("fail", "trajectory")


def test_what_is_gone_comes_before_what_merely_differs() -> None:
    odd = ev.Component(name="model", digest="odd", size=7.0)
    history = restored_wrong(lost("optimizer.momentum_buffer"), "model", odd)

    first, second = result_on("state", KILLED, history).anomalies

    expect_finding(
        first, "part-not-restored", part="optimizer.momentum_buffer", standing="not restored"
    )
    expect_finding(second, "part-changed", part="model", standing="different")


def test_a_learning_rate_follows_from_its_schedule() -> None:
    odd = ev.Component(name="schedule", digest="odd", size=7.0)
    history = restored_wrong(lost("optimizer.lr", fresh("optimizer.lr")), "schedule", odd)

    (found,) = result_on("state", KILLED, history).anomalies

    assert "schedule is not what it was" in found.message
    expect_finding(
        found, "part-not-restored", expects_own_state=False, other_parts=("optimizer.lr",)
    )
    assert found.parts == ("schedule", "optimizer.lr")


def test_a_generator_that_numbers_depend_on_is_broken() -> None:
    verdict = verdict_on(KILLED, lost("rng.torch", fresh("rng.torch")))

    assert verdict.broken[0].check == "state"
    expect_in_headline(
        verdict, "part-not-restored", part="rng.torch", standing="reset", expects_own_state=False
    )
    assert part(verdict, "rng.torch").matters


def test_a_generator_that_nothing_depends_on_is_noted() -> None:
    history = restored_wrong(KILLED.history(), "rng.torch", fresh("rng.torch"))
    verdict = verdict_on(KILLED, history)
    result = result_on("state", KILLED, history)

    assert verdict.status == "pass"
    expect_text(result.summary)
    assert result.measures["components_without_consequence"] == "rng.torch"
    assert not part(verdict, "rng.torch").matters
    assert verdict.diagnosis[0].sound


def test_a_generator_is_not_blamed_for_numbers_that_had_parted_before_it() -> None:
    history = restored_wrong(TWICE.history(), "rng.torch", fresh("rng.torch"), since=2)
    verdict = verdict_on(TWICE, shifted(history, 1))

    assert [result.check for result in verdict.broken] == ["trajectory"]


def test_a_generator_is_not_blamed_for_another_part() -> None:
    history = restored_wrong(lost("ema"), "rng.torch", fresh("rng.torch"))

    assert len(result_on("state", KILLED, history).anomalies) == 1


def test_a_generator_is_blamed_for_inputs_that_were_drawn_anew() -> None:
    def augmented(done: ev.StepDone) -> ev.Inputs:
        samples = digest("augmented", done.epoch, done.step, done.rank)
        return ev.Inputs(count=2, digest=samples, samples=samples)

    history = restored_wrong(KILLED.history(), "rng.torch", fresh("rng.torch"))
    history = changed(history, ev.StepDone, lambda e: e.attempt == 1, inputs=augmented)

    assert verdict_on(KILLED, shifted(history, 2)).broken[0].check == "state"


def test_what_is_as_large_as_it_was_and_not_the_same_is_said_to_be_so() -> None:
    odd = ev.Component(name="model", digest="odd", size=1.12)

    anomaly = expect_finding(
        result_on("state", KILLED, lost("model", odd)), "part-changed", part="model"
    )
    sizes = [anomaly.facts[name]["size"] for name in ("value", "expected_value")]
    assert sizes == [1.12, pytest.approx(1.12)]


@pytest.mark.parametrize(
    ("ours", "words"),
    [(ev.Component(name="x", digest=""), "empty here"), (None, "missing here")],
)
def test_what_is_gone_and_has_no_size_is_said_to_be_gone(
    ours: ev.Component | None, words: str
) -> None:
    due = ev.Component(name="optimizer.state", digest="due")

    facts = PartFacts(
        "optimizer.state",
        ranks=(0,),
        standing="not restored",
        resumed_at=TrainingPlace(1, 0),
        value=build_part_value(ours),
        expected_value=build_part_value(due),
        expects_own_state=False,
        other_parts=(),
    )

    assert describe_values(facts, LAUNCHER_FACTS["ray"].words) == (
        f"{words}, and not in the baseline"
    )


def test_a_generator_is_not_blamed_for_another_order() -> None:
    history = restored_wrong(KILLED.history(), "rng.torch", fresh("rng.torch"))
    verdict = verdict_on(KILLED, in_order_of_epoch_0(shifted(history, 2)))

    assert verdict.broken[0].check == "sample-order"


def in_order_of_epoch_0(history: History) -> History:
    def given(done: ev.StepDone) -> ev.Inputs:
        first = next(
            e
            for _, e in history.select_events(ev.StepDone)
            if (e.attempt, e.rank, e.epoch, e.step) == (0, done.rank, done.epoch - 2, done.step)
        )
        assert first.inputs is not None
        return first.inputs

    return changed(history, ev.StepDone, lambda e: e.attempt == 1, inputs=given)


def test_a_second_resume_is_not_blamed_for_the_first() -> None:
    history = restored_wrong(TWICE.history(), "model", fresh("model"))
    odd = ev.Component(name="model", digest="odd", size=7.0)
    history = shifted(restored_wrong(history, "model", odd, since=2), 1)

    messages = [a.message for a in result_on("state", TWICE, history).anomalies]

    assert messages == [messages[0]]
    assert "after the resume at epoch 1" in messages[0]


def test_what_is_gone_is_blamed_where_the_run_had_left_its_baseline_before() -> None:
    history = restored_wrong(TWICE.history(), "model", fresh("model"))
    history = shifted(restored_wrong(history, "ema", None, since=2), 1)

    expect_finding(
        result_on("state", TWICE, history),
        "part-not-restored",
        part="ema",
        standing="not restored",
        resumed_at=(3, 0),
    )


@pytest.mark.parametrize("name", ["model", "optimizer.momentum_buffer", "optimizer.lr", "schedule"])
def test_what_differs_before_the_fault_is_compared_with_the_runs_own(name: str) -> None:
    def loose(seen: ev.StateSeen) -> ev.Component:
        done = seen.epoch * KILLED.steps + seen.step
        of = seen.epoch + (seen.moment == "left") if name in ("optimizer.lr", "schedule") else done
        return ev.Component(name=name, digest=digest("gpu", of), size=1.0)

    def steady(history: History) -> History:
        """Return that a schedule moves on before the report, and stays so to the next epoch."""
        if name in ("optimizer.lr", "schedule"):
            return restored_wrong(history, name, moved_on, since=0)
        return history

    def moved_on(seen: ev.StateSeen) -> ev.Component:
        epoch = seen.epoch + (seen.moment == "left")
        return ev.Component(name=name, digest=digest("schedule", epoch), size=1.0)

    history = restored_wrong(KILLED.history(), name, loose, since=0)
    baseline = steady(KILLED.baseline())

    def state(run: History) -> CheckResult:
        results = judge(KILLED.plan(), run, baseline).results
        return next(result for result in results if result.check == "state")

    right, gone = state(history), state(shifted(restored_wrong(history, name, None), 2))
    assert right.measures["components_not_repeatable"] == name
    assert right.status == "pass"
    assert right.measures["components_compared"] == 14
    assert f"{name} is not restored" in gone.summary


def test_within_a_tolerance_norms_are_compared_and_generators_are_not() -> None:
    near = ev.Component(name="model", digest="near", size=1.1201)
    history = restored_wrong(KILLED.history(), "model", near, since=0)
    history = restored_wrong(history, "rng.torch", fresh("rng.torch"))
    tolerance = Tolerance(relative=0.01)

    assert result_on("state", KILLED, history, loss_tolerance=tolerance).status == "pass"
    far = restored_wrong(history, "model", fresh("model"))
    assert result_on("state", KILLED, far, loss_tolerance=tolerance).status == "fail"


def test_a_state_that_the_job_has_not_is_not_due() -> None:
    result = result_on("state", Story(KILLED.strikes, watch=False))

    assert (result.status, result.evidence) == ("pass", 0)
    expect_text(result.summary)


def test_a_state_that_only_the_run_lacks_is_unknown() -> None:
    history = without(KILLED.history(), ev.StateSeen)
    entered = without(KILLED.history(), ev.StateSeen, lambda e: e.attempt == 1 and e.rank == 0)

    assert result_on("state", KILLED, history).status == "inconclusive"
    assert "how rank 0 entered attempt 1" in result_on("state", KILLED, entered).summary


def test_a_job_that_leaves_its_checkpoint_alone_started_from_scratch() -> None:
    history = KILLED.history()
    for name in ("model", "optimizer.momentum_buffer", "optimizer.lr", "schedule", "ema"):
        history = restored_wrong(history, name, fresh(name))
    history = shifted(without(history, ev.CheckpointRead), 2)

    verdict = verdict_on(KILLED, history)

    assert verdict.broken[0].check == "resume-point"
    expect_in_headline(
        verdict, "checkpoint-unused", attempt=1, checkpoint="checkpoint_0_1", is_requested=False
    )
    assert part(verdict, "cursor").standing == "reset"


@pytest.mark.parametrize(
    ("momentum", "words"),
    [
        ("2", "It is what the job had at epoch 1, step 0: of an earlier moment than the resume"),
        ("6", "It is what the job had at epoch 3, step 0: of a later moment than the resume"),
        ("9", "none of these was seen"),
    ],
)
def test_a_part_of_another_moment_is_known_by_it(momentum: str, words: str) -> None:
    begin = "g @model=0,opt= s s r c @model=2,opt=2 s s r c @model=4,opt=4 s "
    clean = f"{begin}s r c @model=6,opt=6 s s r c ."
    line = f"{begin}x g<c1 @model=4,opt={momentum} s s! r c @model=7,opt=7 s! s! r c ."

    verdict = judge(plan_of(line), told_in(line), told_in(clean))

    assert words in next(r.summary for r in verdict.results if r.check == "state")
