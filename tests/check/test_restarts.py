"""The cost and the place of each restart, as rows."""

import pytest

from chaos.model import event as ev
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of, changed, without

KILLED = Story((Strike(2, 3, 1),))
TWICE = Story((Strike(1, 3, 1), Strike(3, 2, 0)))


def test_a_restart_knows_its_fault_its_decision_and_the_newest_commit() -> None:
    first, second = analysis_of(TWICE).restarts

    assert [strike.op.index for strike in first.injections] == [0]
    assert first.decision is not None
    assert first.decision.event.attempt == 0
    assert first.newest_commit is not None
    assert first.newest_commit.checkpoint == "checkpoint_0_0"
    assert first.checkpoints == {0: "checkpoint_0_0", 1: "checkpoint_0_0"}
    assert (first.epoch, second.epoch) == (1, 3)
    assert second.previous_attempt is first.attempt


def test_a_commit_that_came_after_the_next_group_is_not_the_newest_it_could_know() -> None:
    story = Story((Strike(2, 3, 1),))
    history = changed(story.history(), ev.Committed, lambda e: e.epoch == 2, attempt=0)

    newest = analysis_of(story, history).restarts[0].newest_commit

    assert newest is not None
    assert newest.epoch == 1


def test_a_phase_that_was_not_seen_counts_to_the_next() -> None:
    history = without(KILLED.history(), ev.FailureDecided)
    history = without(history, ev.WorkerGroupStarted, lambda e: e.attempt == 1)

    phases = analysis_of(KILLED, history).restarts[0].phases

    assert (phases.seconds["detect_s"], phases.seconds["group_s"]) == (None, None)
    assert phases.seconds["start_s"] == pytest.approx(0.984)


def test_the_phases_of_a_recovery_add_up_to_it() -> None:
    for kind in ("kill_worker", "kill_node"):
        (restart,) = analysis_of(Story((Strike(2, 3, 1, kind=kind),))).restarts
        seconds = [s for s in restart.phases.seconds.values() if s is not None]

        assert sum(seconds) == pytest.approx(restart.phases.total_s)
