"""What a restart costs in time and in work: recovery, lost-work."""

from math import inf
from typing import Any

import msgspec
import pytest

from chaos.check.analysis import RunAnalysis
from chaos.check.judge import judge
from chaos.check.progress import check_recovery
from chaos.check.time_limits import find_recovery_limit
from chaos.model import event as ev
from chaos.model.bounds import Bound
from chaos.model.history import History
from chaos.model.scenario import Job
from chaos.model.verdict import Verdict
from tests.accepted import expect_text
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of, changed, later, result_on, resumed_at, rows, without
from tests.findings import expect_finding
from tests.needs import needs_extension

KILLED = Story((Strike(2, 3, 1),))
PREEMPTED = Story((Strike(1, 2, 1, kind="preempt_node"),))
RESTART = ("recovery", "lost-work")


def test_recovery_is_drawn_in_phases() -> None:
    measures = result_on("recovery", KILLED).measures

    assert measures == {
        "recovery_s_max": 0.986,
        "detect_s": 0.081,
        "group_s": 0.9,
        "start_s": 0.003,
        "first_step_s": 0.002,
    }


def test_the_time_until_ray_sees_a_lost_node_is_part_of_the_recovery() -> None:
    story = Story((Strike(2, 3, 1, kind="kill_node"),))
    (gone,) = rows(story.history(), ev.FaultInvoked)
    slow = later(story.history(), gone, by_s=25)

    result = result_on("recovery", story, slow, recovery_s=Bound(max=20))

    assert result.measures["detect_s"] == pytest.approx(25.08)
    assert result.measures["recovery_s_max"] == pytest.approx(26.385)
    expect_finding(result, "slow-recovery", limit_s=20.0, longest_phase="detect", phase_s=25.08)


def test_a_preemption_counts_from_its_deadline_and_not_from_its_notice() -> None:
    (notice,) = rows(PREEMPTED.history(), ev.FaultInvoked)
    (due_ns,) = [e.deadline_ns for _, e in PREEMPTED.history().select_events(ev.NoticeGiven)]
    (restart,) = analysis_of(PREEMPTED).restarts

    assert PREEMPTED.history().time_ns(notice) < due_ns == restart.phases.fault_ns


def test_a_group_that_ray_ends_before_the_deadline_took_no_time_to_detect() -> None:
    (decided,) = rows(PREEMPTED.history(), ev.FailureDecided)
    due_ns = PREEMPTED.history().time_ns(decided) + 10_000_000
    history = changed(PREEMPTED.history(), ev.NoticeGiven, deadline_ns=due_ns)

    (restart,) = analysis_of(PREEMPTED, history).restarts

    assert restart.phases.seconds["detect_s"] == 0.0


def test_a_recovery_that_takes_too_long_names_its_longest_phase() -> None:
    result = result_on("recovery", KILLED, recovery_s=Bound(max=0.5))

    assert result.status == "fail"
    expect_finding(
        result, "slow-recovery", seconds=0.986, limit_s=0.5, longest_phase="group", phase_s=0.9
    )


def queued(address: str | None) -> RunAnalysis:
    """Return the trial of a script for sbatch, on a Slurm of its own or the one at an address."""
    plan = KILLED.plan()
    job = Job(launcher="slurm", script="train.sbatch", workers=2)
    shape = plan.shape.model_copy(update={"address": address})
    there = plan.model_copy(update={"job": job, "shape": shape})
    return RunAnalysis(there, KILLED.history(), KILLED.baseline())


@needs_extension("slurm")
@pytest.mark.parametrize(("address", "allowed_s"), [(None, 120), ("head:6817", inf)])
def test_a_queue_of_others_may_keep_a_job_waiting(address: str | None, allowed_s: float) -> None:
    assert find_recovery_limit(queued(address)).seconds == allowed_s


@needs_extension("slurm")
def test_a_recovery_without_a_limit_is_no_evidence_and_says_so() -> None:
    result = check_recovery.check(queued("head:6817"))

    assert (result.status, result.evidence) == ("pass", 0)
    expect_text(result.summary)


def test_a_restart_after_the_last_step_has_nothing_to_recover() -> None:
    story = Story((Strike(3, moment="committed"),))

    expect_text(result_on("recovery", story).summary)


def test_a_restart_after_the_last_step_leaves_the_recovery_before_it() -> None:
    story = Story((Strike(2, 3, 1), Strike(3, moment="committed")))

    assert result_on("recovery", story).measures["recovery_s_max"] == 0.986


def test_a_restart_that_a_fault_ends_after_the_last_step_has_nothing_to_recover_either() -> None:
    ended = (Strike(3, moment="committed"), Strike(3, moment="recovering"))

    expect_text(result_on("recovery", Story(ended)).summary)
    story = Story((Strike(2, 3, 1), *ended))
    assert result_on("recovery", story).measures["recovery_s_max"] == 0.986


def test_a_restart_that_makes_no_step_is_unknown() -> None:
    history = without(KILLED.history(), ev.StepDone, lambda e: e.attempt == 1)
    history = without(history, ev.FitReturned)

    assert "attempt 1 made no step" in result_on("recovery", KILLED, history).summary


def test_a_restart_without_a_fault_of_ours_has_no_time_to_count_from() -> None:
    result = result_on("recovery", Story(), KILLED.history())

    assert result.status == "inconclusive"
    assert result.measures == {}


@pytest.mark.parametrize("check", RESTART)
def test_no_restart_is_unknown_where_one_was_due(check: str) -> None:
    assert result_on(check, KILLED, Story().history()).status == "inconclusive"


@pytest.mark.parametrize("check", RESTART)
def test_nothing_restarts_after_an_expected_error(check: str) -> None:
    result = result_on(check, Story(KILLED.strikes, budget=0), outcome="error")

    assert result.status == "pass"
    expect_text(result.summary)


def test_lost_work_may_be_bounded_in_numbers() -> None:
    result = result_on("lost-work", KILLED, lost_steps=Bound(max=2))

    expect_finding(
        result,
        "too-many-steps-lost",
        attempt=1,
        rank=0,
        steps=3,
        allowed_steps=2.0,
        severity="work lost",
    )


def test_lost_work_is_bounded_by_the_way_between_two_checkpoints() -> None:
    spread = Story((Strike(3, 3, 1),), every=2)

    assert result_on("lost-work", spread).measures["lost_steps_max"] == 9
    assert result_on("lost-work", spread).status == "pass"

    dense = Story((Strike(3, 3, 1),), every=2)
    history = dense.history()
    verdict = judge(dense.plan(), history, Story().history())
    lost = next(result for result in verdict.results if result.check == "lost-work")
    expect_finding(lost, "too-many-steps-lost", rank=0, steps=9, allowed_steps=6)


def test_steps_beside_an_upload_that_never_ended_are_lost_with_it() -> None:
    story = Story((Strike(3, 3, 1),))
    history = resumed_at(story.history(), epoch=2, attempt=1)
    history = without(history, ev.Committed, lambda e: (e.attempt, e.epoch) == (0, 2))
    begun = ev.UploadBegun(attempt=0, rank=1, epoch=2)
    beside = changed(history, ev.UploadEnded, lambda e: (e.attempt, e.epoch) == (0, 2), epoch=2)
    entries = list(beside)
    (at, *_) = rows(beside, ev.UploadEnded, lambda e: (e.attempt, e.epoch) == (0, 2))
    entries[at] = msgspec.structs.replace(entries[at], event=begun)

    unbegun = result_on("lost-work", story, without(history, ev.UploadBegun))
    expect_finding(unbegun, "too-many-steps-lost", rank=0, steps=9, allowed_steps=6)
    assert result_on("lost-work", story, History(entries)).status == "pass"


def test_a_preemption_may_lose_twice_the_way() -> None:
    story = Story((Strike(1, 2, 1, kind="preempt_node"),))
    history = resumed_at(story.history(), epoch=0, attempt=1)

    assert result_on("lost-work", story, history).status == "pass"
    assert result_on("lost-work", story, history).measures["lost_steps_max"] == 9


def test_lost_work_cannot_be_told_without_any_bound() -> None:
    assert result_on("lost-work", KILLED, alone=True).status == "inconclusive"
    assert result_on("lost-work", KILLED, alone=True, lost_steps=Bound(max=3)).status == "pass"


UNWATCHED = Story((Strike(1, moment="committed"),))


def verdict_without_steps(**expect: Any) -> Verdict:
    """Judge a job that makes no step that could be watched, and resumes as it should."""
    seen, alone = (without(h, ev.StepDone) for h in (UNWATCHED.history(), UNWATCHED.baseline()))
    return judge(UNWATCHED.plan(**expect), seen, alone)


@pytest.mark.parametrize("check", [*RESTART, "state"])
def test_steps_that_cannot_be_watched_are_not_said_to_be_none(check: str) -> None:
    (result,) = (r for r in verdict_without_steps().results if r.check == check)

    assert (result.status, result.evidence) == ("pass", 0)
    expect_text(result.summary)


def test_a_bound_on_lost_steps_is_not_kept_by_a_job_whose_steps_nobody_sees() -> None:
    bounded = verdict_without_steps(lost_steps=Bound(max=5))
    (result,) = (r for r in bounded.results if r.check == "lost-work")

    assert result.status == "inconclusive"
    assert "`expect.lost_steps` is given" in result.summary
