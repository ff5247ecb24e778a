"""Two drivers of one run: who leads it, what of the other is hidden, and who writes beside whom."""

from typing import Any

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.check.drivers import ConcurrentDrivers, find_driver_pair
from chaos.check.evidence import check_faults_happened
from chaos.check.processes import check_single_writer
from chaos.faults.start_second_driver import StartSecondDriver
from chaos.model import event as ev
from chaos.model.fault_entry import FaultEntry
from chaos.model.history import History, JournalEntry
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtStep
from tests.check.story import Story

OP = Op.from_entry(
    0, FaultEntry(at=AtStep(epoch=0, step=1, rank=0), start_second_driver=StartSecondDriver())
)
PLAN: Plan = Story().plan().model_copy(update={"ops": (OP,)})
FIRST, SECOND = ("controller-1", "driver"), ("controller-2", "driver-2")


def opened(role: Any, source: str) -> tuple[str, ev.AnyEvent]:
    return source, ev.JournalOpened(role=role, host="h", pid=1, wall_ns=0)


def group(attempt: int, source: str) -> tuple[str, ev.AnyEvent]:
    return source, ev.WorkerGroupStarted(attempt=attempt, workers=())


def step(attempt: int) -> tuple[str, ev.AnyEvent]:
    return f"worker-{attempt}", ev.StepDone(attempt=attempt, rank=0, epoch=0, step=1, losses=(1.0,))


def report(attempt: int) -> tuple[str, ev.AnyEvent]:
    return f"worker-{attempt}", ev.ReportBegun(attempt=attempt, rank=0, epoch=0)


def commit(attempt: int, source: str, name: str | None = "c") -> tuple[str, ev.AnyEvent]:
    return source, ev.Committed(attempt=attempt, epoch=0, checkpoint=name, metrics=())


def saves(attempt: int, path: str) -> tuple[str, ev.AnyEvent]:
    place = {"attempt": attempt, "rank": 0, "epoch": 0, "step": 1}
    return f"worker-{attempt}", ev.FileSaveBegun(**place, path=path)  # type: ignore[arg-type]


def failed(attempt: int, source: str) -> tuple[str, ev.AnyEvent]:
    return source, ev.FailureDecided(
        attempt=attempt, decision="RETRY", charged="failures", error="E", errors={}
    )


def returned(source: str) -> tuple[str, ev.AnyEvent]:
    return source, ev.FitReturned(metrics={}, checkpoint=None)


STARTED = (
    opened("driver", "driver"),
    opened("controller", "controller-1"),
    group(0, "controller-1"),
    ("chaos", ev.FaultInvoked(op=0, fault="f", attempt=0, rank=0, pid=1, node_id="n")),
    opened("driver", "driver-2"),
    opened("controller", "controller-2"),
    group(1, "controller-2"),
)
EXITS = tuple(("harness", ev.DriverExited(code=0, start=start)) for start in (0, 1))


def history(*lines: tuple[str, ev.AnyEvent]) -> History:
    every = enumerate((*STARTED, *lines, *EXITS))
    return History([JournalEntry(time_ns=n, source=s, seq=n, event=e) for n, (s, e) in every])


def drivers(*lines: tuple[str, ev.AnyEvent]) -> ConcurrentDrivers:
    found = find_driver_pair(PLAN, history(*lines))
    assert found is not None
    return found


def shown(*lines: tuple[str, ev.AnyEvent]) -> list[ev.AnyEvent]:
    """Return the events after the second driver's start that are a part of the run."""
    whole = history(*lines)
    hidden = drivers(*lines).hidden_events
    return [e.event for n, e in enumerate(whole) if n >= len(STARTED) and n not in hidden]


def test_a_run_with_one_driver_has_no_second() -> None:
    assert find_driver_pair(Story().plan(), history()) is None
    assert find_driver_pair(PLAN, Story().history()) is None


def test_a_second_driver_that_writes_nothing_is_no_part_of_the_run() -> None:
    way_out = [
        step(1),
        failed(1, "controller-2"),
        group(2, "controller-2"),
        ("driver-2", ev.FitRaised(error="E", message="locked")),
    ]
    mine = [step(0), report(0), commit(0, "controller-1")]

    assert shown(*way_out, *mine) == [e for _, e in (*mine, EXITS[0])]
    assert drivers(*way_out, *mine).second_attempts == {1, 2}


def test_a_first_driver_that_gives_way_keeps_what_it_wrote_and_its_way_out_is_hidden() -> None:
    way_out = [
        failed(0, "controller-1"),
        group(2, "controller-1"),
        step(2),
        failed(2, "controller-1"),
        ("driver", ev.FitRaised(error="E", message="taken over")),
    ]
    before = [report(0), commit(0, "controller-1", "a")]
    mine = [step(1), report(1), commit(1, "controller-2", "b")]

    assert shown(*before, *mine, *way_out) == [e for _, e in (*before, *mine, EXITS[1])]


def test_a_second_driver_that_waits_for_nodes_fails_no_attempt_of_the_first() -> None:
    mine = [group(2, "controller-2"), step(2), report(2), commit(2, "controller-2")]

    assert shown(failed(0, "controller-2"), *mine) == [e for _, e in (*mine, EXITS[1])]


def test_of_two_drivers_without_a_checkpoint_the_one_that_alone_returns_leads() -> None:
    gave_way = ("driver", ev.FitRaised(error="E", message="taken over"))
    mine = [step(1), commit(1, "controller-2", None), returned("driver-2")]

    assert shown(*mine, gave_way) == [e for _, e in (*mine, EXITS[1])]
    assert shown(*mine, returned("driver")) == [e for _, e in (returned("driver"), EXITS[0])]


def test_steps_that_a_first_driver_makes_in_vain_are_no_part_of_the_run() -> None:
    vain = [step(0), report(0), commit(0, "controller-1", None), returned("driver")]
    mine = [step(1), report(1), commit(1, "controller-2"), returned("driver-2")]

    assert shown(*mine[:1], *vain, *mine[1:]) == [e for _, e in (*mine, EXITS[1])]


def test_a_save_in_hand_and_what_led_to_it_stay_a_part_of_the_run() -> None:
    in_hand = [step(0), report(0), step(1), commit(0, "controller-1", "a")]
    mine = [report(1), commit(1, "controller-2", "b")]

    assert shown(*in_hand, step(0), *mine) == [e for _, e in (*in_hand, *mine, EXITS[1])]


def test_the_end_of_a_hold_is_seen_of_a_driver_that_gives_way() -> None:
    free = ("chaos", ev.GateReleased(op=0, attempt=0, rank=0))
    mine = [step(1), report(1), commit(1, "controller-2")]

    assert shown(free, *mine) == [e for _, e in (free, *mine, EXITS[1])]


def single_writer(*lines: tuple[str, ev.AnyEvent]) -> str:
    return check_single_writer.check(RunAnalysis(PLAN, history(*lines))).status


BOTH = (step(1), step(0), report(0), commit(0, "controller-1"))


def test_a_driver_that_writes_beside_a_later_one_that_trains_breaks_the_promise() -> None:
    assert single_writer(*BOTH, report(1), commit(1, "controller-2")) == "fail"
    assert single_writer(report(1), commit(1, "controller-2"), *BOTH) == "fail"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(BOTH, id="the later one wrote nothing"),
        pytest.param(
            (report(0), step(1), commit(0, "controller-1"), report(1), commit(1, "controller-2")),
            id="its save was in hand",
        ),
        pytest.param(
            (step(1), step(0), report(0), report(1), commit(1, "controller-2")),
            id="its report was never committed",
        ),
        pytest.param(
            (step(1), report(0), commit(0, "controller-1", None), commit(1, "controller-2")),
            id="its report had no checkpoint",
        ),
        pytest.param(
            (step(1), saves(0, "/tmp/one"), saves(1, "/tmp/two"), commit(1, "controller-2")),
            id="its file was its own",
        ),
    ],
)
def test_these_write_alone(lines: tuple[tuple[str, ev.AnyEvent], ...]) -> None:
    assert single_writer(*lines) != "fail"


def test_a_save_begins_when_the_rank_that_saves_reports() -> None:
    saving, waiting = (
        (f"worker-0-{rank}", ev.ReportBegun(attempt=0, rank=rank, epoch=0)) for rank in (0, 1)
    )
    upload = ("worker-0-0", ev.UploadBegun(attempt=0, rank=0, epoch=0))
    rest = [upload, commit(0, "controller-1"), report(1), commit(1, "controller-2")]

    assert single_writer(waiting, step(1), saving, *rest) == "fail"
    assert single_writer(saving, step(1), waiting, *rest) != "fail"


def test_a_rename_is_the_end_of_the_save_that_it_moves() -> None:
    place = {"attempt": 0, "rank": 0, "epoch": 0, "step": 1}
    moved = ("worker-0", ev.FileRenamed(**place, path="/run/tmp-0", to="/run/last.pt"))
    begun, other = saves(0, "/run/tmp-0"), saves(1, "/run/last.pt")

    assert single_writer(begun, step(1), moved, other) != "fail"
    assert single_writer(step(1), begun, moved, other) == "fail"


def test_it_is_said_which_driver_is_not_judged() -> None:
    mine, other = commit(1, "controller-2"), commit(0, "controller-1")

    for line, left_out in ((mine, "first"), (other, "second")):
        result = check_single_writer.check(RunAnalysis(PLAN, history(line)))
        assert f"how the {left_out} one ended (code 0) is not judged" in result.summary


def test_two_drivers_without_steps_are_apart_by_their_writes() -> None:
    mine, other = [report(1), commit(1, "controller-2")], [report(0), commit(0, "controller-1")]

    assert single_writer(*mine, *other) == "fail"
    assert single_writer(*other, *mine) != "fail"
    assert single_writer(other[0], *mine, other[1]) != "fail"  # its save was in hand


def test_a_file_that_both_save_is_written_side_by_side() -> None:
    assert single_writer(step(1), saves(0, "/run/last.pt"), saves(1, "/run/last.pt")) == "fail"


def test_what_was_hidden_stays_hidden_in_an_analysis_of_the_same_history() -> None:
    analysis = RunAnalysis(PLAN, history(step(1), step(0), commit(0, "controller-1")))
    again = RunAnalysis(PLAN, analysis.history)

    assert [a.index for a in analysis.run.attempts] == [a.index for a in again.run.attempts] == [0]


@pytest.mark.parametrize(("journals", "status"), [(STARTED, "pass"), (STARTED[:4], "inconclusive")])
def test_a_second_driver_that_recorded_nothing_is_not_known_to_have_run(
    journals: tuple[tuple[str, ev.AnyEvent], ...], status: str
) -> None:
    ended = ("chaos", ev.FaultEnded(op=0, status="ok", detail="driver 2 has ended"))
    every = enumerate((*journals, ended, step(0), commit(0, "controller-1"), *EXITS))
    told = History([JournalEntry(time_ns=n, source=s, seq=n, event=e) for n, (s, e) in every])

    assert check_faults_happened.check(RunAnalysis(PLAN, told)).status == status
