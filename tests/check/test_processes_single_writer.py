"""An attempt that comes back beside the next one: single-writer."""

import msgspec
import pytest

from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from tests.check.each import judge_each
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.tamper import result_on, rows, told, without
from tests.findings import expect_finding

KILLED = Story((Strike(2, 3, 1),))
SECOND_NS = 1_000_000_000
STEP = ev.StepDone(attempt=0, rank=1, epoch=2, step=4, losses=(1.0,))
COMMIT = ev.Committed(attempt=0, epoch=2, checkpoint=None, metrics=())
REPORT = ev.ReportReturned(attempt=0, rank=1, epoch=2)


def comes_back(late_ns: int, *signs: ev.AnyEvent) -> History:
    """Return that attempt 0 did something so long after attempt 1 was opened."""
    history = KILLED.history()
    (began,) = rows(history, ev.WorkerGroupStarted, lambda e: e.attempt == 1)
    at_ns = history.time_ns(began) + late_ns
    late = [JournalEntry(time_ns=at_ns, source="worker-1001", seq=0, event=sign) for sign in signs]
    return History([*history, *late])


@pytest.mark.parametrize(("late_ns", "status"), [(SECOND_NS, "pass"), (SECOND_NS + 1, "fail")])
def test_a_worker_that_is_being_ended_has_a_second_for_what_it_has_in_hand(
    late_ns: int, status: str
) -> None:
    assert result_on("single-writer", KILLED, comes_back(late_ns, STEP)).status == status


@pytest.mark.parametrize(
    ("sign", "activity"),
    [(STEP, ("step", 1)), (COMMIT, ("commit", None)), (REPORT, ("report", 1))],
)
def test_every_kind_of_late_work_is_named(
    sign: ev.AnyEvent, activity: tuple[str, int | None]
) -> None:
    result = result_on("single-writer", KILLED, comes_back(3 * SECOND_NS, sign))

    expect_finding(result, "attempt-still-working", attempt=0, late_s=3.0, last_activity=activity)
    assert len(result.anomalies[0].events) == 2


def test_a_file_of_an_ended_attempt_is_late_work() -> None:
    place = {"attempt": 0, "rank": 1, "epoch": 2, "step": 3, "path": "/own/late.pt"}
    begun = ev.FileSaveBegun(**place)  # type: ignore[arg-type]
    saved = ev.FileSaved(**place, digest="aa", bytes=1)  # type: ignore[arg-type]

    result = result_on("single-writer", KILLED, comes_back(2 * SECOND_NS, begun, saved))

    assert result.summary.endswith(": a file of rank 1")


def test_it_is_the_very_next_attempt_that_must_be_alone() -> None:
    story = Story((Strike(1, 3, 1), Strike(3, 2, 0)))
    history = story.history()
    (began,) = rows(history, ev.WorkerGroupStarted, lambda e: e.attempt == 1)
    late_ns = history.time_ns(began) + 2 * SECOND_NS
    late = JournalEntry(time_ns=late_ns, source="worker-1001", seq=0, event=STEP)

    result = result_on("single-writer", story, History([*history, late]))

    expect_finding(result, "attempt-still-working", attempt=0, late_s=2.0)
    assert result.anomalies[0].events == (began, len(history))


@pytest.mark.parametrize(("seconds", "status"), [("+5", "fail"), ("+0.5", "pass")])
def test_a_step_before_the_next_attempts_first_one_is_late_work_too(
    seconds: str, status: str
) -> None:
    run = f"g s s r c s x g<c0 {seconds} z +5 s s r c ."

    results = judge_each(plan_of(run), told_in(run), told_in("g s s r c s s r c .")).results

    assert next(r for r in results if r.check == "single-writer").status == status


@pytest.mark.parametrize("unseen", [ev.WorkerGroupStarted, ev.WorkerStarted])
def test_an_attempt_whose_opening_was_not_seen_began_with_its_first_sign(
    unseen: type[ev.Event],
) -> None:
    late = comes_back(3 * SECOND_NS, STEP)
    kinds: set[type[ev.Event]] = {ev.WorkerGroupStarted, unseen}
    for kind in kinds:
        late = without(late, kind, lambda e: e.attempt == 1)

    assert result_on("single-writer", KILLED, late).status == "fail"


def test_two_processes_for_one_rank_of_an_attempt_are_named() -> None:
    history = KILLED.history()
    first = next(
        e for _, e in history.select_events(ev.WorkerStarted) if (e.attempt, e.rank) == (1, 0)
    )
    twin = ev.WorkerStarted(
        attempt=1,
        rank=0,
        world_size=2,
        pid=first.pid + 100,
        node_id=first.node_id,
        checkpoint=first.checkpoint,
        epoch=first.epoch,
    )

    result = result_on("single-writer", KILLED, comes_back(0, twin))

    expect_finding(result, "duplicate-rank", rank=0, attempt=1, pid=first.pid, other_pid=twin.pid)


def test_two_processes_for_one_rank_are_named_where_nothing_restarted() -> None:
    history = Story().history()
    twins = [
        msgspec.structs.replace(e, pid=e.pid + 9)
        for _, e in history.select_events(ev.WorkerStarted)
    ]
    step = next(e for _, e in history.select_events(ev.StepDone) if e.rank == twins[0].rank)

    trained = result_on("single-writer", Story(), told(history, twins[0], step))
    gave_way = result_on("single-writer", Story(), told(history, twins[0]))

    expect_finding(trained, "duplicate-rank", rank=0, attempt=0, pid=1000, other_pid=1009)
    assert gave_way.status == "pass"
