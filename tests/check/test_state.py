"""What came back of the job's state: state, rank-randomness, replicas, and the diagnosis."""

from typing import Any

import pytest

from chaos.check.components import group_of
from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.diagnosis import Part, Resume
from chaos.model.history import History
from chaos.model.leeway import Tolerance
from chaos.model.verdict import Verdict
from tests.check.story import Story, Strike
from tests.check.tamper import changed, restored_wrong, result_on, shifted, verdict_on, without
from tests.check.watching import components, digest

KILLED = Story((Strike(2, 3, 1),))
TWICE = Story((Strike(1, 3, 1), Strike(3, 2, 0)))


def fresh(name: str) -> Any:
    def of(seen: ev.StateSeen) -> ev.Component:
        return next(p for p in components(seen.rank, 0, 0, drawn=True) if p.name == name)

    return of


def of_rank_0(seen: ev.StateSeen) -> ev.Component:
    done = seen.epoch * KILLED.steps + seen.step
    drawn = seen.moment == "entered"
    parts = components(0, done, seen.epoch, drawn=drawn)
    return next(part for part in parts if part.name == "rng.torch")


def lost(name: str, ours: Any = None, **where: Any) -> History:
    """Tell of a part that did not come back at epoch 2, and of the losses that follow."""
    return shifted(restored_wrong(KILLED.history(), name, ours, **where), 2)


def part(verdict: Verdict, component: str, rank: int = 0) -> Part:
    (resume,) = verdict.diagnosis
    return next(p for p in resume.parts if (p.component, p.rank) == (component, rank))


@pytest.mark.parametrize("story", [KILLED, TWICE, Story((Strike(0, 2),)), Story(every=2)])
def test_what_came_back_is_valid(story: Story) -> None:
    assert result_on("state", story).validity == "valid"


def test_a_part_that_is_missing_is_not_restored() -> None:
    verdict = verdict_on(KILLED, lost("optimizer.momentum_buffer"))

    assert verdict.broken[0].check == "state"
    assert verdict.headline.startswith(
        "Rank 1 was killed at epoch 2, step 3; ranks 0 and 1: optimizer.momentum_buffer is not "
        "restored after the resume at epoch 2: norm 1.714 in the baseline, missing here; "
        "`optimizer.load_state_dict` was not called"
    )
    assert "; from epoch 2, step 2 on the loss differs: " in verdict.headline


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("model", "`model.load_state_dict` was not called, matched no name (`strict=False`"),
        ("optimizer.lr", "the optimizer's settings were set anew after its state was loaded"),
        ("schedule", "`scheduler.load_state_dict` was not called"),
        ("ema", "the averaged weights, and how many they average, belong in the checkpoint"),
    ],
)
def test_a_part_that_is_as_at_the_beginning_is_reset(name: str, words: str) -> None:
    verdict = verdict_on(KILLED, lost(name, fresh(name)))

    assert verdict.broken[0].check == "state"
    assert f"{name} is back at its first value after the resume at epoch 2" in verdict.headline
    assert words in verdict.headline
    assert part(verdict, name).standing == "reset"


def test_a_part_that_is_neither_is_different_and_its_rank_is_named() -> None:
    odd = ev.Component(name="ema", digest="odd", size=7.0)
    verdict = verdict_on(KILLED, lost("ema", odd, rank=1))

    assert "; rank 1: ema is not what it was after the resume" in verdict.headline
    assert part(verdict, "ema", 1).standing == "different"
    assert part(verdict, "ema", 0).standing == "restored"


def test_what_is_gone_comes_before_what_merely_differs() -> None:
    odd = ev.Component(name="model", digest="odd", size=7.0)
    history = restored_wrong(lost("optimizer.momentum_buffer"), "model", odd)

    messages = [a.message for a in result_on("state", KILLED, history).anomalies]

    assert "optimizer.momentum_buffer is not restored" in messages[0]
    assert "model is not what it was" in messages[1]


def test_a_learning_rate_follows_from_its_schedule() -> None:
    odd = ev.Component(name="schedule", digest="odd", size=7.0)
    history = restored_wrong(lost("optimizer.lr", fresh("optimizer.lr")), "schedule", odd)

    messages = [a.message for a in result_on("state", KILLED, history).anomalies]

    assert "schedule is not what it was" in messages[0]
    assert "optimizer.lr is back at its first value" in messages[1]


def test_a_generator_that_numbers_depend_on_is_broken() -> None:
    verdict = verdict_on(KILLED, lost("rng.torch", fresh("rng.torch")))

    assert verdict.broken[0].check == "state"
    assert "rng.torch is back at its first value" in verdict.headline
    assert part(verdict, "rng.torch").matters


def test_a_generator_that_nothing_depends_on_is_noted() -> None:
    history = restored_wrong(KILLED.history(), "rng.torch", fresh("rng.torch"))
    verdict = verdict_on(KILLED, history)
    result = result_on("state", KILLED, history)

    assert verdict.validity == "valid"
    assert result.summary.endswith(
        "; rng.torch did not come back, and nothing was seen to depend on it"
    )
    assert result.measures["components_without_consequence"] == "rng.torch"
    assert not part(verdict, "rng.torch").matters
    assert verdict.diagnosis[0].sound


def test_a_generator_is_not_blamed_for_another_part() -> None:
    history = restored_wrong(lost("ema"), "rng.torch", fresh("rng.torch"))

    assert len(result_on("state", KILLED, history).anomalies) == 1


def test_a_generator_is_not_blamed_for_another_order() -> None:
    history = restored_wrong(KILLED.history(), "rng.torch", fresh("rng.torch"))
    verdict = verdict_on(KILLED, in_order_of_epoch_0(shifted(history, 2)))

    assert verdict.broken[0].check == "sample-order"


def in_order_of_epoch_0(history: History) -> History:
    def given(done: ev.StepDone) -> ev.Inputs:
        first = next(
            e
            for _, e in history.of(ev.StepDone)
            if (e.attempt, e.rank, e.epoch, e.step) == (0, done.rank, done.epoch - 2, done.step)
        )
        assert first.inputs is not None
        return first.inputs

    return changed(history, ev.StepDone, lambda e: e.attempt == 1, inputs=given)


def test_another_ranks_generator_is_named_with_its_owner() -> None:
    verdict = verdict_on(KILLED, lost("rng.torch", of_rank_0))

    assert verdict.broken[0].check == "rank-randomness"
    assert "rank 1 went on with rng.torch of rank 0 at epoch 2" in verdict.headline


def test_a_second_resume_is_not_blamed_for_the_first() -> None:
    history = restored_wrong(TWICE.history(), "model", fresh("model"))
    odd = ev.Component(name="model", digest="odd", size=7.0)
    history = shifted(restored_wrong(history, "model", odd, since=2), 1)

    messages = [a.message for a in result_on("state", TWICE, history).anomalies]

    assert messages == [messages[0]]
    assert "after the resume at epoch 1" in messages[0]


def test_what_differs_before_the_fault_is_compared_with_the_runs_own() -> None:
    def loose(seen: ev.StateSeen) -> ev.Component:
        done = seen.epoch * KILLED.steps + seen.step
        return ev.Component(name="model", digest=digest("gpu", done), size=1.0)

    history = restored_wrong(KILLED.history(), "model", loose, since=0)
    right = result_on("state", KILLED, history)
    gone = result_on("state", KILLED, restored_wrong(history, "model", None))

    assert right.measures["components_not_repeatable"] == "model"
    assert right.validity == "valid"
    assert "model is not restored" in gone.summary


def test_within_a_tolerance_norms_are_compared_and_generators_are_not() -> None:
    near = ev.Component(name="model", digest="near", size=1.1201)
    history = restored_wrong(KILLED.history(), "model", near)
    history = restored_wrong(history, "rng.torch", fresh("rng.torch"))
    tolerance = Tolerance(relative=0.01)

    assert result_on("state", KILLED, history, loss_tolerance=tolerance).validity == "valid"
    far = restored_wrong(history, "model", fresh("model"))
    assert result_on("state", KILLED, far, loss_tolerance=tolerance).validity == "invalid"


def test_a_state_that_the_job_has_not_is_not_due() -> None:
    result = result_on("state", Story(KILLED.strikes, watch=False))

    assert (result.validity, result.evidence) == ("valid", 0)
    assert "the job has no state, or it was not watched" in result.summary


def test_a_state_that_only_the_run_lacks_is_unknown() -> None:
    history = without(KILLED.history(), ev.StateSeen)
    entered = without(KILLED.history(), ev.StateSeen, lambda e: e.attempt == 1 and e.rank == 0)

    assert result_on("state", KILLED, history).validity == "unknown"
    assert "how rank 0 entered attempt 1" in result_on("state", KILLED, entered).summary


def test_replicas_that_part_later_are_found() -> None:
    odd = ev.Component(name="model", digest="odd", size=7.0)
    history = restored_wrong(KILLED.history(), "model", odd, rank=1)
    entered = changed(
        history,
        ev.StateSeen,
        lambda e: (e.attempt, e.epoch, e.moment) == (1, 2, "entered"),
        components=lambda e: components(e.rank, 12, 2, drawn=True),
    )

    verdict = verdict_on(KILLED, entered)

    assert verdict.broken[0].check == "replicas"
    assert "from the report of epoch 2 on, model is not the same on all ranks" in verdict.headline


def test_a_shard_is_no_replica() -> None:
    def shard(seen: ev.StateSeen) -> ev.Component:
        done = seen.epoch * KILLED.steps + seen.step
        return ev.Component(name="model", digest=digest("shard", seen.rank, done), size=1.0)

    history = restored_wrong(KILLED.history(), "model", shard, since=0)
    baseline = restored_wrong(KILLED.baseline(), "model", shard, since=0)

    assert judge(KILLED.plan(), history, baseline).validity == "valid"


def test_ranks_that_enter_with_different_models_do_not_agree() -> None:
    verdict = verdict_on(KILLED, lost("model", fresh("model"), rank=1))

    assert verdict.broken[0].check == "agreement"
    assert "rank 1 entered attempt 1 with another model than rank 0" in verdict.headline


def test_a_job_that_leaves_its_checkpoint_alone_started_from_scratch() -> None:
    history = KILLED.history()
    for name in ("model", "optimizer.momentum_buffer", "optimizer.lr", "schedule", "ema"):
        history = restored_wrong(history, name, fresh(name))
    history = shifted(without(history, ev.CheckpointRead), 2)

    verdict = verdict_on(KILLED, history)

    assert verdict.broken[0].check == "resume-point"
    assert "attempt 1 started from scratch: it was handed checkpoint_0_1, and no rank asked" in (
        verdict.headline
    )
    assert part(verdict, "cursor").standing == "reset"


def test_the_diagnosis_of_a_right_run_says_that_all_came_back() -> None:
    (resume,) = verdict_on(KILLED).diagnosis

    assert resume.sound
    assert resume.sentence == "9 parts of the state came back"
    assert (resume.attempt, resume.epoch, resume.step) == (1, 2, 0)
    groups = list(dict.fromkeys(p.group for p in resume.parts))
    assert groups == [
        "model", "optimizer", "optimizer settings", "schedule", "averaged model", "rng",
        "data order", "cursor",
    ]  # fmt: skip
    assert Resume.model_validate_json(resume.model_dump_json()) == resume


def test_the_diagnosis_of_two_resumes_blames_the_right_one() -> None:
    history = shifted(restored_wrong(TWICE.history(), "ema", None, since=2), 3)

    first, second = verdict_on(TWICE, history).diagnosis

    assert first.sound
    assert not second.sound
    assert "ema is not restored after the resume at epoch 3" in second.sentence


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("model", "model"),
        ("optimizer.exp_avg", "optimizer"),
        ("optimizer[1].exp_avg", "optimizer"),
        ("optimizer.lr", "optimizer settings"),
        ("optimizer.weight_decay", "optimizer settings"),
        ("schedule", "schedule"),
        ("scaler", "scaler"),
        ("rng.python", "rng"),
        ("patience", "declared"),
    ],
)
def test_every_component_belongs_to_a_group(name: str, group: str) -> None:
    assert group_of(name) == group
