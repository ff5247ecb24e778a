"""What storage holds of the checkpoints that were committed: checkpoints, retention, ack."""

import pytest

from chaos.model import event as ev
from chaos.model.scenario import Retention
from chaos.model.verdict import CheckResult, Verdict
from tests.check.each import judge_each
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.tamper import changed, result_on, rows, told, without
from tests.findings import expect_finding

KEPT = Story((Strike(2, 3, 1),), keep=1)
BASELINE = "g s w:f_1 s r c- s w:f_2 s r c- s w:f_10 s r c- s w:f_11 s r c- ."


def verdict(run: str, baseline: str = BASELINE) -> Verdict:
    return judge_each(plan_of(run), told_in(run), told_in(baseline))


def result(check: str, run: str, baseline: str = BASELINE) -> CheckResult:
    return next(r for r in verdict(run, baseline).results if r.check == check)


# -- storage -----------------------------------------------------------------------------------


@pytest.mark.parametrize("story", [KEPT, Story(KEPT.strikes), Story(KEPT.strikes, keep=2)])
def test_what_ray_keeps_is_whole_and_enough(story: Story) -> None:
    for check in ("checkpoints", "retention", "ack"):
        assert result_on(check, story).status == "pass"
        assert result_on(check, story).evidence


def test_a_checkpoint_that_is_gone_is_missed() -> None:
    story = Story(KEPT.strikes)
    history = changed(
        story.history(), ev.StorageSeen, lambda e: e.op is None, checkpoints=lambda e: ()
    )

    found = result_on("checkpoints", story, history)

    expect_finding(found, "checkpoint-gone", op=None, is_another_whole=False)


def test_every_checkpoint_that_is_damaged_is_named_once() -> None:
    story = Story(KEPT.strikes)

    def gone(seen: ev.StorageSeen) -> tuple[ev.StoredCheckpoint, ...]:
        damaged = {"checkpoint_0_0"} | ({"checkpoint_1_2"} if seen.op is None else set())
        return tuple(found for found in seen.checkpoints if found.name not in damaged)

    history = changed(story.history(), ev.StorageSeen, checkpoints=gone)

    found = result_on("checkpoints", story, history).anomalies
    assert [a.message.partition(" was committed")[0] for a in found] == [
        "checkpoint_0_0 of epoch 0",
        "checkpoint_1_2 of epoch 2",
    ]


@pytest.mark.parametrize(("began_ns", "status"), [(0, "pass"), (2**62, "fail")])
def test_what_was_committed_while_storage_was_looked_at_may_have_been_missed(
    began_ns: int, status: str
) -> None:
    story = Story(KEPT.strikes)

    def lacking(seen: ev.StorageSeen) -> tuple[ev.StoredCheckpoint, ...]:
        return tuple(
            ev.StoredCheckpoint(name=c.name, files={} if seen.op is not None else c.files)
            for c in seen.checkpoints
        )

    history = changed(story.history(), ev.StorageSeen, checkpoints=lacking, began_ns=began_ns)

    assert result_on("checkpoints", story, history).status == status


def test_files_of_another_attempt_in_one_checkpoint_are_a_mixture() -> None:
    story = Story(KEPT.strikes)
    stray = ev.PartUploaded(
        attempt=0, rank=0, epoch=2, checkpoint="checkpoint_1_2", files={"old.pt": "aa"}
    )

    def mixed(seen: ev.StorageSeen) -> tuple[ev.StoredCheckpoint, ...]:
        return tuple(
            ev.StoredCheckpoint(name=c.name, files={**c.files, "old.pt": "aa"})
            if c.name == "checkpoint_1_2"
            else c
            for c in seen.checkpoints
        )

    history = told(changed(story.history(), ev.StorageSeen, checkpoints=mixed), stray)

    assert "it was mixed with old.pt" in result_on("checkpoints", story, history).summary


def test_storage_that_nobody_looked_at_is_unknown() -> None:
    history = without(KEPT.history(), ev.StorageSeen)

    assert result_on("checkpoints", KEPT, history).status == "inconclusive"
    assert (
        result_on("checkpoints", KEPT, without(history, ev.PartUploaded)).status == "inconclusive"
    )


def test_too_many_checkpoints_are_counted() -> None:
    history = without(Story(KEPT.strikes, keep=None).history(), ev.FitCalled)
    called = next(event for _, event in KEPT.history().select_events(ev.FitCalled))
    history = told(history, called)

    expect_finding(result_on("retention", KEPT, history), "too-many-checkpoints", count=4, limit=1)


def test_nothing_is_removed_where_all_are_kept() -> None:
    called = next(event for _, event in KEPT.history().select_events(ev.FitCalled))
    history = changed(
        KEPT.history(), ev.FitCalled, settings={**called.settings, "num_to_keep": None}
    )

    expect_finding(
        result_on("retention", KEPT, history), "checkpoint-removed", checkpoint="checkpoint_1_2"
    )


def test_the_best_by_its_score_is_kept() -> None:
    story = Story(KEPT.strikes, keep=2)
    plan = story.plan()
    scored = Retention(
        num_to_keep=2, checkpoint_score_attribute="epoch", checkpoint_score_order="min"
    )
    plan = plan.model_copy(update={"job": plan.job.model_copy(update={"checkpoint": scored})})
    settings = {"num_to_keep": 2, "checkpoint_score_attribute": "epoch"}
    history = changed(story.history(), ev.FitCalled, settings=settings)

    results = judge_each(plan, history, story.baseline()).results

    expect_finding(
        next(r for r in results if r.check == "retention"),
        "best-checkpoint-missing",
        checkpoint="checkpoint_0_0",
        epoch=0,
        score="epoch",
        parts=("epoch",),
    )


def test_a_result_that_storage_does_not_hold_is_no_result() -> None:
    foreign = changed(KEPT.history(), ev.FitReturned, checkpoint="checkpoint_9_9")
    gone = changed(KEPT.history(), ev.FitReturned, checkpoint="checkpoint_0_0")

    assert "which was never committed" in result_on("ack", KEPT, foreign).summary
    assert "storage does not hold it" in result_on("ack", KEPT, gone).summary


def test_other_checkpoints_kept_than_the_baselines_are_another_choice() -> None:
    story = Story(KEPT.strikes, keep=2)
    last = max(rows(story.history(), ev.StorageSeen))

    def fewer(seen: ev.StorageSeen) -> tuple[ev.StoredCheckpoint, ...]:
        return seen.checkpoints[1:]

    history = changed(story.history(), ev.StorageSeen, lambda e: e.op is None, checkpoints=fewer)

    result = result_on("selection", story, history)
    expect_finding(result, "other-checkpoints-kept", epochs=(3,), expected_epochs=(2, 3))
    assert result.anomalies[0].events == (last,)
