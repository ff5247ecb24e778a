"""Where the time went: to the nanosecond, and by what was seen."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.check.analysis import RunAnalysis, RunTables
from chaos.check.goodput import (
    PHASES,
    TimeLedger,
    build_ledger,
    describe_phase,
    find_bounds_ns,
    get_ledger,
)
from chaos.faults.kill_worker import KillWorker
from chaos.faults.pause_worker import PauseWorker
from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from chaos.model.launcher import LAUNCHER_FACTS
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtStep
from tests.check.story import Story, Strike

GATE: dict[str, Any] = {"op": 0, "attempt": 0, "rank": 0, "pid": 1, "node_id": "n"}
BEFORE: list[tuple[float, ev.AnyEvent]] = [
    (0.0, ev.RunStarted(scenario="s", seed=0, backend="ray")),
    (3.0, ev.ControllerState(previous="INITIALIZING", state="SCHEDULING")),
    (7.0, ev.WorkerGroupStarted(attempt=0, workers=())),
    (9.0, ev.ControllerState(previous="SCHEDULING", state="RUNNING")),
]


def started(attempt: int, *, checkpoint: str | None, epoch: int) -> ev.AnyEvent:
    return ev.WorkerStarted(
        attempt=attempt,
        rank=0,
        world_size=1,
        pid=1,
        node_id="n",
        checkpoint=checkpoint,
        epoch=epoch,
    )


def done(attempt: int, epoch: int, step: int) -> ev.AnyEvent:
    return ev.StepDone(attempt=attempt, rank=0, epoch=epoch, step=step, losses=(0.5,))


def report(at_s: float, attempt: int, epoch: int) -> list[tuple[float, ev.AnyEvent]]:
    place: dict[str, Any] = {"attempt": attempt, "rank": 0, "epoch": epoch}
    committed = ev.Committed(
        attempt=attempt, epoch=epoch, checkpoint=f"checkpoint_{epoch}", metrics=()
    )
    return [
        (at_s, ev.ReportBegun(**place)),
        (at_s + 0.5, ev.ReportReturned(**place)),
        (at_s + 0.6, committed),
    ]


KILLED: list[tuple[float, ev.AnyEvent]] = [
    *BEFORE,
    (6.5, started(0, checkpoint=None, epoch=0)),
    (10.0, done(0, 0, 1)),
    (11.0, done(0, 0, 2)),
    *report(11.0, 0, 0),
    (12.5, done(0, 1, 1)),
    (12.5, ev.GateReached(**GATE)),
    (12.75, ev.FaultInvoked(fault="kill_worker", **GATE)),
    (12.8, ev.FaultEnded(op=0, status="ok", detail="gone")),
    (
        13.75,
        ev.FailureDecided(attempt=0, decision="RETRY", charged="failures", error="E", errors={}),
    ),
    (14.0, ev.ControllerState(previous="RESTARTING", state="SCHEDULING")),
    (20.0, ev.WorkerGroupStarted(attempt=1, workers=())),
    (20.0, started(1, checkpoint="checkpoint_0", epoch=1)),
    (22.0, ev.ControllerState(previous="SCHEDULING", state="RUNNING")),
    (24.0, done(1, 1, 1)),
    (25.0, done(1, 1, 2)),
    *report(25.0, 1, 1),
    (28.0, ev.RunEnded()),
]


def told(rows: list[tuple[float, ev.AnyEvent]]) -> History:
    entries = [
        JournalEntry(time_ns=int(at_s * 1e9), source="x", seq=seq, event=what)
        for seq, (at_s, what) in enumerate(sorted(rows, key=lambda row: row[0]))
    ]
    return History(entries)


def plan_of(**fault: Any) -> Plan:
    op = Op(index=0, at=AtStep(epoch=1, step=1, rank=0), **fault)
    return Story((), ranks=1).plan().model_copy(update={"ops": (op,)})


def charged(found: TimeLedger, attempt: int | None = None) -> dict[str, float]:
    return {phase: s for phase, s in found.sum_seconds(attempt=attempt).items() if s}


def test_every_second_of_a_struck_run_is_charged_to_what_it_was_spent_on() -> None:
    found = get_ledger(RunAnalysis(plan_of(kill_worker=KillWorker()), told(KILLED)))

    assert charged(found, 0) == {
        "other": 3.25,  # 3 s until it was scheduled, 0.25 s held by chaos
        "schedule": 4.0,
        "start": 3.0,  # nothing is restored at the first start
        "productive": 1.0,
        "checkpoint": 0.5,
        "replay": 1.0,  # the step that the restart threw away
        "detect": 1.0,
        "teardown": 0.25,
    }
    assert charged(found, 1) == {
        "schedule": 6.0,
        "start": 2.0,
        "restore": 2.0,
        "productive": 1.0,
        "checkpoint": 0.5,
        "other": 2.5,
    }
    assert found.wall_ns == 28_000_000_000
    assert found.goodput == pytest.approx(2 / 28)


def test_the_phases_of_a_recovery_are_the_recovery() -> None:
    analysis = RunAnalysis(plan_of(kill_worker=KillWorker()), told(KILLED))
    found = get_ledger(analysis)
    (restart,) = analysis.restarts
    spent = [
        *(found.sum_seconds(attempt=0)[phase] for phase in ("detect", "teardown")),
        *(found.sum_seconds(attempt=1)[phase] for phase in ("schedule", "start", "restore")),
    ]

    assert sum(spent) == pytest.approx(restart.phases.total_s)


def test_what_chaos_needs_before_and_after_the_job_is_not_charged_to_it() -> None:
    opened = ev.JournalOpened(role="driver", host="box", pid=1, wall_ns=0)
    rows = [*KILLED, (2.0, opened), (27.0, ev.DriverExited(code=0))]
    found = get_ledger(RunAnalysis(plan_of(kill_worker=KillWorker()), told(rows)))

    assert found.wall_ns == 25_000_000_000
    assert charged(found)["other"] == 3.25 - 2.0 + 2.5 - 1.0


def test_while_a_worker_is_paused_nothing_is_productive() -> None:
    rows = [
        *BEFORE,
        (10.0, done(0, 0, 1)),
        (10.0, ev.FaultInvoked(fault="pause_worker", **GATE)),
        (10.5, ev.FaultEnded(op=0, status="ok", detail="stopped")),
        (15.0, ev.FaultHealed(op=0, detail="continued")),
        (16.0, done(0, 0, 2)),
    ]
    found = get_ledger(RunAnalysis(plan_of(pause_worker=PauseWorker(for_s=5.0)), told(rows)))

    assert charged(found)["other"] == 3.0 + 5.0
    assert charged(found)["productive"] == 1.0


def test_a_job_without_steps_is_charged_by_its_reports() -> None:
    rows = [*BEFORE, *report(12.0, 0, 0), *report(14.5, 0, 1)]

    assert charged(build_ledger(RunTables(told(rows))))["productive"] == 5.0


def test_a_run_of_nothing_has_no_goodput() -> None:
    assert build_ledger(RunTables(History([]))).goodput is None
    assert build_ledger(RunTables(told([(1.0, ev.RunEnded())]))).goodput is None


def test_every_phase_is_explained() -> None:
    assert all(
        describe_phase(phase, facts.words) for phase in PHASES for facts in LAUNCHER_FACTS.values()
    )


@st.composite
def parts_of_runs(draw: st.DrawFn) -> RunAnalysis:
    """Return a struck run of which any events may be missing, at times that may be anything."""
    kind: Any = draw(st.sampled_from(["kill_worker", "kill_node", "preempt_node"]))
    strike = Strike(draw(st.integers(0, 2)), draw(st.integers(1, 3)), 0, kind=kind)
    story = Story(
        (strike,) if draw(st.booleans()) else (),
        epochs=3,
        steps=3,
        budget=draw(st.sampled_from([0, 9])),
        files=draw(st.booleans()),
    )
    whole = story.history()
    states = [
        JournalEntry(
            time_ns=draw(st.integers(whole[0].time_ns, whole[-1].time_ns)),
            source="controller-9",
            seq=number,
            event=ev.ControllerState(previous="?", state=state),
        )
        for number, state in enumerate(
            draw(st.lists(st.sampled_from(["SCHEDULING", "RUNNING", "RESTARTING"]), max_size=6))
        )
    ]
    gone = draw(st.sets(st.integers(0, len(whole) - 1), max_size=draw(st.integers(0, len(whole)))))
    kept = [entry for number, entry in enumerate(whole) if number not in gone]
    entries = sorted([*kept, *states], key=lambda entry: entry.time_ns)
    return RunAnalysis(story.plan(), History(entries))


@given(parts_of_runs())
def test_the_phases_add_up_to_the_wall_time_whatever_is_missing(analysis: RunAnalysis) -> None:
    found = get_ledger(analysis)
    history = analysis.history
    begin_ns, end_ns = find_bounds_ns(history) if len(history) else (0, 0)
    wall_ns = end_ns - begin_ns

    assert sum(found.sum_nanoseconds().values()) == found.wall_ns == wall_ns
    assert sum(sum(found.sum_nanoseconds(attempt=a).values()) for a in found.attempts) == wall_ns
    assert all(span.duration_ns > 0 for span in found.spans)
    edges = [(span.since_ns, span.until_ns) for span in found.spans]
    assert all(until == since for (_, until), (since, _) in itertools.pairwise(edges))
