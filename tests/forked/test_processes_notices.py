"""What a job makes of a notice: the same job and the same notice, with and without a setting."""

from typing import Any

import pytest

from chaos.faults.hang_worker import HangWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.faults.slow_upload import SlowUpload
from chaos.model.event import Committed
from chaos.model.fault_entry import FaultEntry
from chaos.model.trigger import AtMoment, AtStep, Trigger
from tests.forked.conftest import ROOT, Judged, RunJob

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(120)]  # two minutes in all

SPOT: dict[str, Any] = {"script": ROOT / "scenarios/jobs/digits_spot.py", "workers": 2}
BRIEF = {**SPOT, "steps": 20, "save-every": 8, "step-s": 0.2}
UPLOAD = AtMoment(epoch=2, moment="upload_begin", rank=0)


def at(place: Trigger, **fault: Any) -> FaultEntry:
    return FaultEntry(at=place, **fault)


def notice(rank: int, notice_s: float) -> FaultEntry:
    return at(AtStep(epoch=2, step=2, rank=rank), preempt_node=PreemptNode(notice_s=notice_s))


def lost(judged: Judged) -> int:
    """Return the steps that were thrown away, of a run that is right in all else.

    But for what the preemption was charged to: that is a race in Ray 2.60
    (`scenarios/ray-defects/preemption_charged_to_failures`), which a busy
    machine loses more often.
    """
    assert {r.check for r in judged.verdict.broken} <= {"retry-budget"}, judged.verdict.headline
    measures = next(r.measures for r in judged.verdict.results if r.check == "lost-work")
    steps = measures["lost_steps_max"]
    assert isinstance(steps, int)
    return steps


def test_a_checkpoint_at_the_notice_saves_what_was_done_since_the_last_one(run: RunJob) -> None:
    job = {**SPOT, "steps": 100, "save-every": 90, "step-s": 0.02, "ops": (notice(1, 1.0),)}
    baseline = run(**{**job, "ops": ()}).history

    at_once = lost(run(**job, baseline=baseline))
    without = lost(run(**job, **{"no-jit": True}, baseline=baseline))

    assert at_once <= 12 < without


@pytest.mark.parametrize(
    ("doomed", "relaxed", "saved"), [(1, False, False), (1, True, True), (0, True, False)]
)
def test_relaxed_collectives_commit_without_a_doomed_rank_that_is_not_rank_0(
    run: RunJob, doomed: int, relaxed: bool, saved: bool
) -> None:
    stuck = at(AtStep(epoch=2, step=4, rank=doomed), hang_worker=HangWorker())
    job = {**BRIEF, "relax-collectives": relaxed}

    judged = run(**job, ops=(notice(doomed, 1.5), stuck), baseline=run(**job).history)

    assert lost(judged) == (0 if saved else 4)
    commit = next(e for _, e in judged.history.select_events(Committed) if e.epoch == 2)
    assert (commit.attempt, len(commit.metrics)) == ((0, 1) if saved else (1, 2))


@pytest.mark.parametrize(
    ("doomed", "grace_s", "saved"), [(1, 0, False), (1, 5, True), (0, 5, False)]
)
def test_a_grace_lets_a_survivor_finish_its_upload(
    run: RunJob, doomed: int, grace_s: int, saved: bool
) -> None:
    slow = at(UPLOAD, slow_upload=SlowUpload(delay_s=2.0))
    job = {**BRIEF, "grace-s": grace_s}

    judged = run(**job, ops=(notice(doomed, 1.2), slow), baseline=run(**job).history)

    assert lost(judged) == (0 if saved else 4)
