"""A job that goes on with fewer workers: some promises hold all the same, some cannot be judged."""

from dataclasses import replace
from typing import Literal

import msgspec
import pytest

from chaos.model import event as ev
from chaos.model.history import History
from tests.accepted import expect_text
from tests.check.each import judge_each
from tests.check.fewer_workers import STORY, fed, judged, part, shrunk
from tests.check.story import Story, Strike
from tests.check.tamper import changed
from tests.check.watching import digest
from tests.findings import expect_finding


def test_what_is_not_compared_with_fewer_workers_is_not_counted() -> None:
    results = judged(shrunk(STORY.history()))

    for check in ("batch", "sample-order", "trajectory"):
        assert "10 steps with another number of workers" in results[check].summary
        assert results[check].status == "pass"
    assert results["batch"].evidence == 24


def halves(done: ev.StepDone, *, of: int | None = None) -> ev.Inputs:
    """Give one half of the data in even epochs and the other in odd ones; `of`: to one worker."""
    half = [f"{100 * ((done.epoch if of is None else of) % 2) + n:08x}" for n in range(24)]
    each = 2 if of is None else 5
    at = 2 * (done.step - 1) + done.rank if of is None else done.step - 1
    mine = half[each * at : each * at + each]
    return ev.Inputs(count=len(mine), digest=digest(mine), samples="".join(mine))


@pytest.mark.parametrize(("again", "status"), [(False, "pass"), (True, "fail")])
def test_where_saves_fall_within_a_pass_the_run_is_judged_as_a_whole(
    again: bool, status: str
) -> None:
    baseline = changed(STORY.baseline(), ev.StepDone, inputs=halves)
    run = changed(History(shrunk(STORY.history())), ev.StepDone, inputs=halves)
    fewer = changed(
        run,
        ev.StepDone,
        lambda e: e.attempt == 1,
        inputs=lambda e: halves(e, of=0 if again else e.epoch),
    )

    samples = judged(list(fewer), baseline)["samples"]

    assert samples.status == status, samples.summary
    assert not again or "in 2 passes over the data, " in samples.summary


@pytest.mark.parametrize(
    ("least", "in_force", "status"),
    [
        (None, None, "fail"),
        (1, None, "pass"),
        (None, [1, 2], "pass"),
        (1, 2, "fail"),
        (1, [2, 4], "fail"),
    ],
)
def test_only_a_job_that_says_so_goes_on_with_fewer_workers(
    least: int | None, in_force: object, status: str
) -> None:
    called = ev.FitCalled(
        trainer="TorchTrainer",
        workers=2,
        run_name="a",
        storage_path="/a",
        settings={"num_workers": in_force},
        original_settings={},
    )
    entries = shrunk(STORY.history())
    first = msgspec.structs.replace(entries[0], event=called)
    plan = replace(STORY, least=least).plan()

    verdict = judge_each(plan, History([first, *entries]), STORY.baseline())

    assert verdict.status == status, verdict.headline
    assert [result.check for result in verdict.broken] == ["attempts"] * (status == "fail")
    assert status == "pass" or "attempt 1 had 1 worker; " in verdict.headline


def test_other_losses_with_fewer_workers_are_no_defect() -> None:
    verdict = judge_each(STORY.plan(), History(shrunk(STORY.history())), STORY.baseline())

    assert verdict.status == "pass", verdict.headline
    expect_text(verdict.headline)


def test_the_same_losses_with_as_many_workers_are_one() -> None:
    apart = [
        entry
        if getattr(entry.event, "attempt", 0) == 0 or not isinstance(entry.event, ev.StepDone)
        else msgspec.structs.replace(
            entry, event=msgspec.structs.replace(entry.event, losses=(0.125,))
        )
        for entry in STORY.history()
    ]

    verdict = judge_each(STORY.plan(), History(apart), STORY.baseline())

    assert [result.check for result in verdict.broken] == ["trajectory"]


def test_an_epoch_that_is_lost_on_the_way_is_found_all_the_same() -> None:
    lost = [
        entry
        for entry in shrunk(STORY.history())
        if not (isinstance(entry.event, ev.Committed) and entry.event.epoch == 2)
    ]

    verdict = judge_each(STORY.plan(), History(lost), STORY.baseline())

    assert "epochs" in [result.check for result in verdict.broken]


def test_a_job_that_begins_again_with_fewer_workers_is_found_all_the_same() -> None:
    again = [
        msgspec.structs.replace(
            entry, event=msgspec.structs.replace(entry.event, checkpoint=None, epoch=0)
        )
        if isinstance(entry.event, ev.WorkerStarted) and entry.event.attempt == 1
        else entry
        for entry in shrunk(STORY.history())
    ]

    verdict = judge_each(STORY.plan(), History(again), STORY.baseline())

    assert verdict.broken[0].check == "resume-point"


def test_a_fault_before_anything_was_saved_leaves_nothing_to_compare_and_says_so() -> None:
    story = replace(STORY, strikes=(Strike(epoch=0, step=3, rank=1),))

    verdict = judge_each(story.plan(), History(shrunk(story.history())), story.baseline())

    trajectory = verdict.results[-1]
    assert verdict.status == "pass", verdict.headline
    assert "another number of workers" in trajectory.summary
    assert trajectory.evidence == 0
    batch = next(result for result in verdict.results if result.check == "batch")
    assert (batch.status, batch.evidence) == ("pass", 0)
    assert "another number of workers" in batch.summary


@pytest.mark.parametrize(
    ("kind", "error", "status"),
    [
        ("kill_node", "ControllerError: WorkerGroupStartupTimeoutError", "pass"),
        ("kill_worker", "ControllerError: WorkerGroupStartupTimeoutError", "fail"),
        ("kill_worker", "ControllerError: WorkerGroupStartupFailedError", "pass"),
        ("kill_node", "ControllerError: ValueError", "fail"),
    ],
)
def test_a_start_that_a_fault_spoilt_is_no_failure_of_the_controller(
    kind: Literal["kill_node", "kill_worker"], error: str, status: str
) -> None:
    story = Story(strikes=(Strike(epoch=2, step=3, rank=1, kind=kind),))
    waits = ev.FailureDecided(
        attempt=0, decision="RETRY", charged="controller", error=error, errors={}
    )
    told = []
    for entry in story.history():
        told.append(entry)
        if isinstance(entry.event, ev.FailureDecided):
            told.append(msgspec.structs.replace(entry, time_ns=entry.time_ns + 1, event=waits))

    verdict = judge_each(story.plan(), History(told), story.baseline())

    assert verdict.status == status, verdict.headline


def test_a_step_that_takes_a_whole_epoch_again_pays_for_nothing() -> None:
    whole = "".join(str(part(3, step).samples) for step in range(1, 6))

    def inputs(done: ev.StepDone) -> ev.Inputs:
        mine = part(done.epoch, done.step)
        if (done.epoch, done.step) != (3, 5):
            return mine
        samples = [f"{mine.samples}{whole}"[at : at + 8] for at in range(0, 8 * 29, 8)]
        samples = [sample for sample in samples if sample]
        return ev.Inputs(count=len(samples), digest=digest(samples), samples="".join(samples))

    verdict = judge_each(STORY.plan(), History(fed(inputs)), STORY.baseline())

    found = next(result for result in verdict.results if result.check == "samples")
    expect_finding(
        found, "epoch-samples-uneven", epoch=3, sample_count=24, missing_count=0, surplus_count=24
    )


@pytest.mark.parametrize(("state", "status"), [("RESIZING", "pass"), ("RUNNING", "fail")])
def test_a_group_that_ray_itself_made_smaller_is_charged_to_nothing(
    state: str, status: str
) -> None:
    story = Story(strikes=(Strike(epoch=1, step=2, rank=1, kind="kill_node"),))
    moved = ev.ControllerState(previous="RUNNING", state=state)
    told = [
        msgspec.structs.replace(entry, event=moved)
        if isinstance(entry.event, ev.FailureDecided)
        else entry
        for entry in shrunk(story.history())
    ]

    verdict = judge_each(story.plan(), History(told), story.baseline())

    found = next(result for result in verdict.results if result.check == "retry-budget")
    assert found.status == status, found.summary
