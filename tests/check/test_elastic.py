"""A job that goes on with fewer workers: some promises hold all the same, some cannot be judged."""

from typing import Literal

import msgspec
import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.history import Entry, History
from tests.check.story import Story, Strike

STORY = Story(strikes=(Strike(epoch=2, step=3, rank=1),))


def shrunk(history: History) -> list[Entry]:
    """Tell the story again with one worker after the fault, whose steps are other steps."""
    return [
        msgspec.structs.replace(entry, what=_alone(entry.what))
        for entry in history
        if not _is_of_the_second_rank(entry.what)
    ]


def _is_of_the_second_rank(what: ev.AnyEvent) -> bool:
    is_later = getattr(what, "attempt", 0) > 0
    is_left_out = isinstance(what, ev.StepDone) and what.step == STORY.steps
    return is_later and (getattr(what, "rank", 0) == 1 or is_left_out)


def _alone(what: ev.AnyEvent) -> ev.AnyEvent:
    if getattr(what, "attempt", 0) == 0:
        return what
    match what:
        case ev.WorkerGroupStarted(workers=workers):
            return msgspec.structs.replace(what, workers=workers[:1])
        case ev.StepDone():
            return msgspec.structs.replace(what, losses=(0.125,))
        case ev.Committed():
            return msgspec.structs.replace(what, metrics=({"epoch": what.epoch, "loss": 0.125},))
        case _:
            return what


def test_other_losses_with_fewer_workers_are_no_defect() -> None:
    verdict = judge(STORY.plan(), History(shrunk(STORY.history())), STORY.baseline())

    assert verdict.validity == "valid", verdict.headline
    assert "with another number of workers it finished" in verdict.headline


def test_the_same_losses_with_as_many_workers_are_one() -> None:
    apart = [
        entry
        if getattr(entry.what, "attempt", 0) == 0 or not isinstance(entry.what, ev.StepDone)
        else msgspec.structs.replace(
            entry, what=msgspec.structs.replace(entry.what, losses=(0.125,))
        )
        for entry in STORY.history()
    ]

    verdict = judge(STORY.plan(), History(apart), STORY.baseline())

    assert [result.check for result in verdict.broken] == ["trajectory"]


def test_an_epoch_that_is_lost_on_the_way_is_found_all_the_same() -> None:
    lost = [
        entry
        for entry in shrunk(STORY.history())
        if not (isinstance(entry.what, ev.Committed) and entry.what.epoch == 2)
    ]

    verdict = judge(STORY.plan(), History(lost), STORY.baseline())

    assert "epochs" in [result.check for result in verdict.broken]


def test_a_job_that_begins_again_with_fewer_workers_is_found_all_the_same() -> None:
    again = [
        msgspec.structs.replace(
            entry, what=msgspec.structs.replace(entry.what, checkpoint=None, epoch=0)
        )
        if isinstance(entry.what, ev.WorkerStarted) and entry.what.attempt == 1
        else entry
        for entry in shrunk(STORY.history())
    ]

    verdict = judge(STORY.plan(), History(again), STORY.baseline())

    assert verdict.broken[0].check == "resume-point"


def test_a_fault_before_anything_was_saved_leaves_nothing_to_compare_and_says_so() -> None:
    story = Story(strikes=(Strike(epoch=0, step=3, rank=1),))

    verdict = judge(story.plan(), History(shrunk(story.history())), story.baseline())

    trajectory = verdict.results[-1]
    assert verdict.validity == "valid", verdict.headline
    assert "another number of workers" in trajectory.summary
    assert trajectory.evidence == 0


@pytest.mark.parametrize(
    ("kind", "error", "validity"),
    [
        ("kill_node", "ControllerError: WorkerGroupStartupTimeoutError", "valid"),
        ("kill_worker", "ControllerError: WorkerGroupStartupTimeoutError", "invalid"),
        ("kill_worker", "ControllerError: WorkerGroupStartupFailedError", "valid"),
        ("kill_node", "ControllerError: ValueError", "invalid"),
    ],
)
def test_a_start_that_a_fault_spoilt_is_no_failure_of_the_controller(
    kind: Literal["kill_node", "kill_worker"], error: str, validity: str
) -> None:
    story = Story(strikes=(Strike(epoch=2, step=3, rank=1, kind=kind),))
    waits = ev.FailureDecided(
        attempt=0, decision="RETRY", charged="controller", error=error, errors={}
    )
    told = []
    for entry in story.history():
        told.append(entry)
        if isinstance(entry.what, ev.FailureDecided):
            told.append(msgspec.structs.replace(entry, time_ns=entry.time_ns + 1, what=waits))

    verdict = judge(story.plan(), History(told), story.baseline())

    assert verdict.validity == validity, verdict.headline


@pytest.mark.parametrize(("state", "validity"), [("RESIZING", "valid"), ("RUNNING", "invalid")])
def test_a_group_that_ray_itself_made_smaller_is_charged_to_nothing(
    state: str, validity: str
) -> None:
    story = Story(strikes=(Strike(epoch=1, step=2, rank=1, kind="kill_node"),))
    moved = ev.ControllerState(previous="RUNNING", state=state)
    told = [
        msgspec.structs.replace(entry, what=moved)
        if isinstance(entry.what, ev.FailureDecided)
        else entry
        for entry in shrunk(story.history())
    ]

    verdict = judge(story.plan(), History(told), story.baseline())

    found = next(result for result in verdict.results if result.check == "retry-budget")
    assert found.validity == validity, found.summary
