"""What storage did is charged to the attempts that it ended, and to no other."""

from typing import Any, Literal

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.faults.fail_upload import FailUpload
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtStep
from chaos.model.verdict import Verdict
from tests.check.each import judge_each
from tests.check.story import Story, Strike
from tests.check.tamper import told, without

STORY = Story((Strike(2, 3, 1),))
CLEAN = Story()
Effect = Literal["raised", "killed", "delayed", "cut"]


def plan_of(story: Story = STORY, **expect: Any) -> Plan:
    ops = tuple(
        Op(index=i, at=AtStep(epoch=2, step=3, rank=1), fail_upload=FailUpload())
        for i in range(max(1, len(story.strikes)))
    )
    return story.plan(**expect).model_copy(update={"ops": ops})


def did(effect: Effect = "raised", *, rank: int | None = 1, attempt: int = 0) -> ev.StorageFaulted:
    return ev.StorageFaulted(
        op=0, attempt=attempt, rank=rank, pid=1, effect=effect, path="/r/c/f", detail="raised it"
    )


def ended(error: str | None = "OSError: no", *, rank: int = 1) -> ev.TrainFnEnded:
    return ev.TrainFnEnded(attempt=0, rank=rank, epoch=2, step=3, error=error)


def struck(*events: ev.AnyEvent) -> History:
    """Return a history in which attempt 0 fails after these events."""
    return told(STORY.history(), *events, before=ev.FailureDecided)


def calm(*events: ev.AnyEvent) -> History:
    """Return a history in which these events came and nothing failed."""
    what = ev.FaultInvoked(op=0, fault="fail_upload (x1)", attempt=0, rank=1, pid=1, node_id="n")
    proof = ev.FaultEnded(op=0, status="ok", detail="raised it")
    return told(CLEAN.history(), what, *events, proof, before=ev.Committed)


def hits(history: History) -> dict[int, int]:
    found = RunAnalysis(plan_of(), history, STORY.baseline()).hits
    return {attempt: len(strikes) for attempt, strikes in found.items()}


def verdict(history: History, story: Story = STORY, **expect: Any) -> Verdict:
    return judge_each(plan_of(story, **expect), history, story.baseline())


def result(told_by: Verdict, check: str) -> str:
    return next(r.status for r in told_by.results if r.check == check)


def test_an_error_that_ended_the_train_function_ended_its_attempt() -> None:
    history = struck(did(), ended())

    assert hits(history) == {0: 1}
    assert verdict(history).status == "pass", verdict(history).headline
    assert "An upload failed: storage raised it" in verdict(history).headline


def test_a_worker_that_died_in_its_upload_ended_its_attempt() -> None:
    assert hits(struck(did("killed"))) == {0: 1}


def test_an_error_in_an_upload_in_the_background_is_seen_by_the_decision_on_it() -> None:
    assert hits(struck(did())) == {0: 1}


@pytest.mark.parametrize(
    "events",
    [
        (did("delayed"), ended()),
        (did("cut"), ended()),
        (did(rank=None), ended()),
        (did(), ended(None)),
        (ended(), did()),
    ],
    ids=["waited", "was lied to", "the controller", "caught it", "failed before it"],
)
def test_what_the_train_function_did_not_die_of_ended_nothing(events: tuple[Any, ...]) -> None:
    assert hits(struck(*events)) == {}


def test_a_failure_that_storage_did_not_cause_is_surplus() -> None:
    judged = verdict(struck(did("cut"), ended()))

    assert result(judged, "retry-budget") == "fail"


def test_one_op_may_end_several_attempts_and_each_is_charged() -> None:
    story = Story((Strike(1, 3, 1), Strike(2, 3, 1)))
    first = story.history()
    at = [n for n, _ in first.select_events(ev.FailureDecided)]
    entries = list(first)
    twice = History(entries[: at[1]])
    twice = told(twice, did("killed", attempt=1), before=ev.RunEnded)
    history = History([*twice, *entries[at[1] :]])
    history = told_before_first(history, did("killed"))
    analysis = RunAnalysis(plan_of(Story((Strike(1, 3, 1),))), history, story.baseline())

    assert sorted(analysis.hits) == [0, 1]
    assert [len(restart.injections) for restart in analysis.restarts] == [1, 1]
    harms = [restart.phases.fault_ns for restart in analysis.restarts]
    assert None not in harms
    assert harms[0] != harms[1]


def told_before_first(history: History, event: ev.AnyEvent) -> History:
    at = next(n for n, _ in history.select_events(ev.FailureDecided))
    head = told(History(list(history)[:at]), event, before=ev.RunEnded)
    return History([*head, *list(history)[at:]])


def test_a_fault_that_only_the_harness_speaks_of_is_in_doubt() -> None:
    judged = verdict(calm(), CLEAN)

    assert result(judged, "faults-happened") == "inconclusive"
    assert judged.status == "inconclusive"


def test_a_fault_that_costs_nothing_leaves_nothing_to_be_charged() -> None:
    judged = verdict(calm(did("delayed")), CLEAN)

    assert judged.status == "pass", judged.headline
    assert result(judged, "faults-happened") == "pass"


def test_a_fault_that_never_took_effect_is_not_green() -> None:
    failed = ev.FaultEnded(op=0, status="fail", detail="it was armed, and never met")
    history = told(without(calm(), ev.FaultEnded), failed)

    assert verdict(history, CLEAN).status == "inconclusive"
