"""The place and the checkpoint of a restart: resume-point."""

import pytest

from chaos.model import event as ev
from tests.check.story import Story, Strike
from tests.check.tamper import changed, result_on, verdict_on, without
from tests.findings import expect_finding

KILLED = Story((Strike(2, 3, 1),))
TWICE = Story((Strike(1, 3, 1), Strike(3, 2, 0)))
CHECKS = ("resume-point", "cursor", "epochs")


def first_attempt_after(event: ev.WorkerStarted) -> bool:
    return event.attempt == 1


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("story", [KILLED, TWICE, Story((Strike(0, 2),)), Story(every=2)])
def test_a_right_restart_is_valid(check: str, story: Story) -> None:
    assert result_on(check, story, epoch_metric="epoch").status == "pass"


@pytest.mark.parametrize(
    ("handed", "words"),
    [
        (
            "checkpoint_0_0",
            "was handed checkpoint_0_0 (epoch 0), although checkpoint_0_1 (epoch 1)",
        ),
        (None, "started from scratch, although checkpoint_0_1 (epoch 1) was committed"),
    ],
)
def test_a_wrong_checkpoint_is_named(handed: str | None, words: str) -> None:
    history = changed(KILLED.history(), ev.WorkerStarted, first_attempt_after, checkpoint=handed)

    verdict = verdict_on(KILLED, history)

    assert verdict.broken[0].check == "resume-point"
    assert words in verdict.broken[0].summary
    assert words in verdict.headline


def test_a_checkpoint_from_nowhere_is_wrong_even_where_none_was_committed() -> None:
    story = Story((Strike(0, 2, 1),))
    history = changed(story.history(), ev.WorkerStarted, first_attempt_after, checkpoint="x")

    expect_finding(
        result_on("committed-only", story, history), "uncommitted-checkpoint", checkpoint="x"
    )


@pytest.mark.parametrize("handed", ["checkpoint_9_9", "checkpoint_1_2"])
def test_a_checkpoint_that_was_never_committed_is_named_as_such(handed: str) -> None:
    history = changed(KILLED.history(), ev.WorkerStarted, first_attempt_after, checkpoint=handed)

    verdict = verdict_on(KILLED, history)

    assert verdict.broken[0].check == "committed-only"
    assert f"was handed {handed}, which was never committed" in verdict.headline


def test_ranks_that_were_handed_different_checkpoints_are_listed() -> None:
    history = changed(
        KILLED.history(),
        ev.WorkerStarted,
        lambda e: (e.attempt, e.rank) == (1, 1),
        checkpoint=None,
    )

    expect_finding(
        result_on("agreement", KILLED, history),
        "different-checkpoints",
        attempt=1,
        checkpoints={"0": "checkpoint_0_1"},
    )
    assert result_on("resume-point", KILLED, history).status == "pass"


def test_a_report_that_returned_is_not_a_commit() -> None:
    story = Story((Strike(2, moment="reported"),))

    assert result_on("resume-point", story).status == "pass"
    assert result_on("lost-work", story).measures["lost_steps_max"] == 6


def test_an_attempt_whose_ranks_did_not_speak_is_unknown() -> None:
    history = without(KILLED.history(), ev.WorkerStarted, first_attempt_after)

    assert "said which checkpoint" in result_on("resume-point", KILLED, history).summary


def test_a_checkpoint_that_nobody_asked_for_is_told_beside_the_surplus() -> None:
    story = Story(KILLED.strikes, extra=2)
    history = without(story.history(), ev.CheckpointRead)

    found = result_on("epochs", story, history)

    expect_finding(found, "too-many-epochs", epochs=6, attempt_without_read=1)
