"""The rows that checks read: attempts, lineage, strikes, restarts."""

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.check.judge import judge_analysis
from chaos.model import event as ev
from chaos.model.history import Baseline
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of, changed, resumed_at, without

KILLED = Story((Strike(2, 3, 1),))
TWICE = Story((Strike(1, 3, 1), Strike(3, 2, 0)))


def test_an_attempt_keeps_the_steps_that_carry_its_index() -> None:
    first, second = analysis_of(KILLED).run.attempts

    assert [len(first.select_steps(1, epoch)) for epoch in range(3)] == [6, 6, 3]
    assert (second.epoch, sorted(second.starts)) == (2, [0, 1])
    assert second.reading_ranks == {0, 1}


def test_the_tables_of_a_baseline_are_made_once_and_fit_every_run() -> None:
    first, second = analysis_of(KILLED), analysis_of(TWICE)
    shared = Baseline([KILLED.baseline()])
    told = [RunAnalysis(a.plan, a.history, shared) for a in (first, second, first)]

    verdicts = [judge_analysis(analysis) for analysis in told]

    assert len({id(analysis.reference) for analysis in told}) == 1
    assert verdicts == [judge_analysis(a) for a in (first, second, first)]


def test_an_attempt_of_which_only_a_decision_was_seen_is_no_attempt() -> None:
    history = without(without(KILLED.history(), ev.WorkerGroupStarted), ev.StepDone)
    only_decision = without(without(history, ev.WorkerStarted), ev.Committed)

    assert analysis_of(KILLED, only_decision).run.attempts == ()


def test_the_lineage_keeps_what_the_last_attempt_did_again() -> None:
    lineage = analysis_of(KILLED).run.lineage

    assert {lineage.count_steps(rank, epoch) for rank in (0, 1) for epoch in range(4)} == {6}
    assert [commit.epoch for commit in lineage.commits] == [0, 1, 2, 3]
    assert lineage.resumed_epochs == {(0, 2), (1, 2)}
    assert lineage.lost_steps == {0: {}, 1: {0: 3, 1: 3}}
    assert {step.attempt for step in lineage.select_steps(0, 2)} == {1}


def test_a_restart_further_back_takes_the_place_of_an_earlier_one() -> None:
    story = Story((Strike(2, 1), Strike(3, 1)))
    history = resumed_at(story.history(), epoch=1, attempt=2)

    lineage = analysis_of(story, history).run.lineage

    assert lineage.resumed_epochs == {(0, 1), (1, 1)}


def test_a_rank_that_did_not_speak_follows_the_others() -> None:
    history = without(KILLED.history(), ev.WorkerStarted, lambda e: (e.attempt, e.rank) == (1, 1))

    assert analysis_of(KILLED, history).run.lineage.count_steps(1, 2) == 6


def test_the_way_between_commits_counts_to_the_next_checkpoint() -> None:
    def longest(story: Story) -> int:
        return analysis_of(story).run.lineage.longest_commit_interval

    assert longest(Story()) == 6
    assert longest(Story(every=2)) == 12
    assert longest(Story(every=9)) == 24
    assert longest(Story(epochs=0)) == 0


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


def test_the_first_attempt_may_be_missing() -> None:
    history = without(KILLED.history(), ev.WorkerGroupStarted, lambda e: e.attempt == 0)
    for kind in (ev.WorkerStarted, ev.StepDone, ev.Committed):
        history = without(history, kind, lambda e: e.attempt == 0)

    (restart,) = analysis_of(KILLED, history).restarts

    assert restart.previous_attempt is None
    assert restart.newest_commit is None


def test_a_strike_by_the_clock_hits_the_attempt_that_still_uses_the_node() -> None:
    story = Story((Strike(1, 2, 1, kind="preempt_node"),))

    (strike,) = analysis_of(story).injections

    assert (strike.hit_attempt, strike.has_effect, strike.is_preemption) == (0, True, True)


def test_a_node_without_workers_is_lost_in_vain() -> None:
    story = Story((Strike(1, 2, 1, kind="preempt_node"),))
    history = changed(story.history(), ev.FailureDecided, charged="failures")
    moved = changed(history, ev.FaultInvoked, node_id="node-elsewhere")
    before = changed(history, ev.NoticeGiven, deadline_ns=0)

    assert analysis_of(story, history).injections[0].hit_attempt == 0
    assert analysis_of(story, moved).injections[0].hit_attempt is None
    assert analysis_of(story, before).injections[0].hit_attempt is None


def test_ray_may_end_a_preempted_group_a_moment_before_our_deadline() -> None:
    story = Story((Strike(1, 2, 1, kind="preempt_node"),))
    (decided,) = [n for n, _ in story.history().select_events(ev.FailureDecided)]
    decided_ns = story.history().time_ns(decided)

    def hit(late_s: float, charged: str) -> int | None:
        due_ns = int(decided_ns + late_s * 1e9)
        history = changed(story.history(), ev.NoticeGiven, deadline_ns=due_ns)
        history = changed(history, ev.FailureDecided, charged=charged)
        return analysis_of(story, history).injections[0].hit_attempt

    assert hit(0.01, "failures") == 0
    assert hit(60, "preemptions") == 0
    assert hit(60, "failures") is None


def test_a_strike_that_was_not_seen_has_the_rank_it_was_meant_for() -> None:
    (strike,) = analysis_of(KILLED, Story().history()).injections

    assert (strike.rank, strike.has_effect, strike.events) == (1, False, ())


def test_tables_are_made_once() -> None:
    analysis = analysis_of(KILLED)

    assert analysis.restarts is analysis.restarts
    assert analysis.run.lineage is analysis.run.lineage
    assert RunAnalysis(analysis.plan, analysis.history).reference is None
