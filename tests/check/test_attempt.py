"""The attempts of a run, as rows."""

from chaos.model import event as ev
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of, without

KILLED = Story((Strike(2, 3, 1),))


def test_an_attempt_keeps_the_steps_that_carry_its_index() -> None:
    first, second = analysis_of(KILLED).run.attempts

    assert [len(first.select_steps(1, epoch)) for epoch in range(3)] == [6, 6, 3]
    assert (second.epoch, sorted(second.starts)) == (2, [0, 1])
    assert second.reading_ranks == {0, 1}


def test_an_attempt_of_which_only_a_decision_was_seen_is_no_attempt() -> None:
    history = without(without(KILLED.history(), ev.WorkerGroupStarted), ev.StepDone)
    only_decision = without(without(history, ev.WorkerStarted), ev.Committed)

    assert analysis_of(KILLED, only_decision).run.attempts == ()


def test_a_rank_that_did_not_speak_follows_the_others() -> None:
    history = without(KILLED.history(), ev.WorkerStarted, lambda e: (e.attempt, e.rank) == (1, 1))

    assert analysis_of(KILLED, history).run.lineage.count_steps(1, 2) == 6


def test_the_first_attempt_may_be_missing() -> None:
    history = without(KILLED.history(), ev.WorkerGroupStarted, lambda e: e.attempt == 0)
    for kind in (ev.WorkerStarted, ev.StepDone, ev.Committed):
        history = without(history, kind, lambda e: e.attempt == 0)

    (restart,) = analysis_of(KILLED, history).restarts

    assert restart.previous_attempt is None
    assert restart.newest_commit is None
