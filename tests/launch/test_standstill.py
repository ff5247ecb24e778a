"""A hang is seen by idle processes and equal stacks; what may go on by itself is none."""

import queue
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from chaos.faults.kill_worker import KillWorker
from chaos.faults.slow_upload import SlowUpload
from chaos.launch.standstill import (
    WAKES_MIN,
    ActivitySample,
    StandstillWatch,
    awaits_clock,
    find_stable_threads,
    find_waiting_ranks,
    is_idle,
)
from chaos.model import event as ev
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtStep
from chaos.probe import gates, probe
from chaos.processes.activity import Activity
from chaos.run.clock import SystemClock
from chaos.run.stacks import StackFrame, ThreadStack
from tests.check.story import Story, Strike

PLAN = Story(strikes=(Strike(1, 2),)).plan()
IDLE = Activity(cpu_s=5.0)


def started(attempt: int, rank: int) -> ev.WorkerStarted:
    return ev.WorkerStarted(
        attempt=attempt,
        rank=rank,
        world_size=2,
        pid=100 + rank,
        node_id="n",
        checkpoint=None,
        epoch=0,
        step=0,
    )


FIRST = [started(0, 0), started(0, 1)]
AGAIN = [
    *FIRST,
    ev.FaultInvoked(op=0, fault="kill_worker", attempt=0, rank=0, pid=100, node_id="n"),
    started(1, 0),
    started(1, 1),
]


def ranks(events: Sequence[ev.AnyEvent], plan: Plan = PLAN) -> list[int]:
    return [worker.rank for worker in find_waiting_ranks(plan, events)]


def test_all_ranks_of_an_attempt_that_no_fault_has_hit_may_wait() -> None:
    assert ranks(FIRST) == [0, 1]
    assert ranks(AGAIN) == [0, 1]


def test_a_rank_whose_training_is_over_is_waited_for_no_more() -> None:
    over = ev.TrainFnEnded(attempt=1, rank=0, epoch=3, step=6, error=None)
    assert ranks([*AGAIN, over]) == [1]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(AGAIN[:3], id="the launcher has not seen the loss"),
        pytest.param(AGAIN[:4], id="a rank is still to come"),
        pytest.param(
            [*AGAIN, ev.GateReached(op=1, attempt=1, rank=0, pid=100, node_id="n")], id="held"
        ),
        pytest.param([*AGAIN, ev.NoticeGiven(op=1, node_id="n", deadline_ns=9)], id="a notice"),
        pytest.param(
            [*AGAIN, ev.TrainFnEnded(attempt=1, rank=0, epoch=1, step=2, error="OSError")],
            id="a rank failed",
        ),
        pytest.param([], id="no worker has started"),
    ],
)
def test_a_wait_that_is_not_the_jobs_own_is_none(events: list[ev.AnyEvent]) -> None:
    assert ranks(events) == []


def test_a_fault_of_storage_may_last_beyond_its_attempt() -> None:
    slow = Op(index=0, at=AtStep(epoch=1, step=2, rank=0), slow_upload=SlowUpload(delay_s=20))
    assert ranks(AGAIN, PLAN.model_copy(update={"ops": (slow,)})) == []
    kill = Op(index=0, at=AtStep(epoch=1, step=2, rank=0), kill_worker=KillWorker())
    assert ranks(AGAIN, PLAN.model_copy(update={"ops": (kill,)})) == [0, 1]


def sampled(*activities: Mapping[int, Activity]) -> list[ActivitySample]:
    return [ActivitySample(float(second), each) for second, each in enumerate(activities)]


def test_processes_that_use_no_time_for_long_enough_are_idle() -> None:
    samples = sampled(*[{1: IDLE}] * 11)

    assert is_idle(samples, for_s=10)
    assert not is_idle(samples, for_s=11)
    assert not is_idle([], for_s=0)


@pytest.mark.parametrize(
    "activities",
    [
        pytest.param([{1: Activity(cpu_s=0.2 * n)} for n in range(11)], id="it computes"),
        pytest.param([{1: Activity(5.0, is_busy=True)}] * 11, id="it waits for a core, or a disk"),
        pytest.param([{1: IDLE}] * 10 + [{1: IDLE, 2: IDLE}], id="it has started a process"),
        pytest.param([{1: IDLE, 2: IDLE}] * 10 + [{1: IDLE}], id="a process has ended"),
        pytest.param(
            [{1: IDLE, 2: Activity(cpu_s=float(n))} for n in range(11)], id="a child computes"
        ),
    ],
)
def test_processes_that_do_something_are_not_idle(activities: list[dict[int, Activity]]) -> None:
    assert not is_idle(sampled(*activities), for_s=10)


def own(function: str, line: int) -> StackFrame:
    return StackFrame("/job/train.py", line, function)


def main(*frames: StackFrame) -> ThreadStack:
    return ThreadStack("0x1", frames, is_main=True)


JOB = (own("take", 31), own("main", 88))
WAITS = main(StackFrame(queue.__file__, 171, "get"), *JOB)
LOOKS = main(own("is_complete", 25), own("take", 30), own("main", 88))


def test_stacks_are_settled_when_they_were_the_same_twice() -> None:
    assert find_stable_threads([[WAITS], [WAITS]]) == (WAITS,)
    assert find_stable_threads([[WAITS], [LOOKS], [WAITS]]) == (WAITS,)
    assert find_stable_threads([[WAITS], [LOOKS]]) == ()
    assert find_stable_threads([[WAITS]]) == ()


def test_stacks_without_a_line_of_the_job_say_nothing() -> None:
    library = main(StackFrame("/x/site-packages/torch/a.py", 1, "f"))
    assert find_stable_threads([[library], [library]]) == ()


def test_another_thread_of_the_job_must_stand_still_as_well() -> None:
    one, other = (ThreadStack("0x2", (own("collect", line),)) for line in (50, 51))
    assert find_stable_threads([[one, WAITS], [other, WAITS]]) == ()
    assert find_stable_threads([[one, WAITS], [one, WAITS]]) == (WAITS, one)


def slept(wakes: int, *, thread: int = 1, sleeps: bool = True) -> list[ActivitySample]:
    sleepers = frozenset({thread} if sleeps else ())
    return sampled(
        {1: Activity(0.0, wakes={thread: 7}, sleepers=sleepers)},
        {1: Activity(0.0, wakes={thread: 7 + wakes}, sleepers=sleepers)},
    )


@pytest.fixture
def sleep(monkeypatch: pytest.MonkeyPatch) -> ThreadStack:
    monkeypatch.setattr("linecache.getline", lambda *_: "time.sleep(delay)\n")
    return main(own("retry", 31))


def test_a_sleep_ends_by_itself_until_it_has_been_repeated_often(sleep: ThreadStack) -> None:
    assert awaits_clock(slept(WAKES_MIN - 1), {1: [sleep]})
    assert not awaits_clock(slept(WAKES_MIN), {1: [sleep]})


def test_a_thread_that_sleeps_may_fill_the_queue_that_another_waits_for(sleep: ThreadStack) -> None:
    beside = ThreadStack("0x2", sleep.frames)

    assert awaits_clock(slept(2, thread=9), {1: [beside]})
    assert awaits_clock(slept(0, thread=9, sleeps=False), {1: [beside]})
    assert not awaits_clock(slept(WAKES_MIN, thread=9), {1: [beside]})


def test_a_process_of_the_job_that_sleeps_may_go_on() -> None:
    assert awaits_clock(slept(3), {})
    assert not awaits_clock(slept(0, sleeps=False), {})


def test_another_program_may_end() -> None:
    waits = main(StackFrame(subprocess.__file__, 1264, "wait"), own("copy", 12))
    assert awaits_clock(sampled({1: IDLE}, {1: IDLE}), {1: [waits]})


class Hands(SystemClock):
    def __init__(self) -> None:
        self.seconds = 100.0

    def now_ns(self) -> int:
        return int(self.seconds * 1e9)


@dataclass
class Run:
    """A run that is looked at ten times a second; `asked` is when stacks were taken."""

    clock: Hands = field(default_factory=Hands)
    events: list[ev.AnyEvent] = field(default_factory=lambda: list(AGAIN))
    asked: list[float] = field(default_factory=list)
    stack: ThreadStack = WAITS
    cpu_s: float = 0.0
    share: float = 0.0

    def __post_init__(self) -> None:
        self.watch = StandstillWatch(
            PLAN,
            10.0,
            self.clock,
            measure_activities=lambda ranks: {worker.pid: Activity(self.cpu_s) for worker in ranks},
            take_stacks=self.take,
            load_stacks=lambda _: [self.stack],
        )

    def take(self) -> None:
        self.asked.append(self.clock.seconds - 100)
        self.events.append(ev.StackTaken(pid=100, rank=0, path="logs/x"))

    def hung_after(self, seconds: float) -> float | None:
        """Return when the run was found to hang, within so many seconds."""
        end = self.clock.seconds + seconds
        while self.clock.seconds < end:
            self.clock.seconds += 0.1
            self.cpu_s += 0.1 * self.share
            if self.watch.find_hang(self.events) is not None:
                return self.clock.seconds - 100
        return None


def test_a_run_that_stands_still_hangs_after_its_limit_and_no_earlier() -> None:
    run = Run()

    assert run.hung_after(30) == pytest.approx(11, abs=1.5)
    assert len(run.asked) == 2
    assert {(wait.rank, wait.function, wait.callee) for wait in run.watch.waits} == {
        (rank, "take", "queue.get") for rank in (0, 1)
    }


def test_a_rank_that_waits_for_an_answer_of_chaos_is_no_hang() -> None:
    gate = StackFrame(gates.__file__, 75, "ask")
    run = Run(stack=main(gate, StackFrame(probe.__file__, 266, "record_report_start"), *JOB))

    assert run.hung_after(60) is None


def test_a_run_with_an_event_now_and_then_is_never_looked_into() -> None:
    run = Run()
    for _ in range(20):
        assert run.hung_after(5) is None
        run.events.append(ev.StepDone(attempt=1, rank=0, epoch=1, step=3, losses=(0.5,)))

    assert run.asked == []


def test_the_stacks_of_a_run_that_computes_are_not_taken() -> None:
    run = Run(share=0.5)

    assert run.hung_after(60) is None
    assert run.asked == []


def test_a_run_that_holds_a_rank_is_no_hang() -> None:
    run = Run()
    run.events.append(ev.GateReached(op=1, attempt=1, rank=0, pid=100, node_id="n"))

    assert run.hung_after(60) is None
