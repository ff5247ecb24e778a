"""The injections of a run, as rows."""

from chaos.model import event as ev
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of, changed

KILLED = Story((Strike(2, 3, 1),))


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
