"""One job as chaos sees it: 2 ranks, 4 epochs of 23 steps, rank 1 killed at epoch 2, step 5."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from chaos.check.judge import judge
from chaos.faults.kill_worker import KillWorker
from chaos.faults.world import Status
from chaos.model import event as ev
from chaos.model.expect import Expect
from chaos.model.history import History, JournalEntry
from chaos.model.plan import Op, Plan, Shape
from chaos.model.scenario import Job, Limits
from chaos.model.trigger import AtStep
from chaos.report.outcome import FinishedRun

RANKS, EPOCHS, STEPS = 2, 4, 23
STEP_NS = 60_000_000
SCENARIO = "worker killed in the middle of an epoch"


@dataclass
class Tape:
    """Writes entries down with a clock of its own."""

    now_ns: int = 5_000_000_000
    entries: list[JournalEntry] = field(default_factory=list)
    lengths: dict[str, int] = field(default_factory=dict)

    def add(self, source: str, *events: ev.AnyEvent, after_ms: float = 1.0) -> None:
        for event in events:
            self.now_ns += int(after_ms * 1e6)
            seq = self.lengths[source] = self.lengths.get(source, -1) + 1
            self.entries.append(
                JournalEntry(time_ns=self.now_ns, source=source, seq=seq, event=event)
            )


def loss_at(rank: int, epoch: int, step: int, *, defect: float = 0.0) -> float:
    at = epoch * STEPS + step
    noise = math.sin(at * 12.9898 + rank * 78.233) * 0.06
    return 2.3 * math.exp(-at / 38) + 0.18 + noise * math.exp(-at / 60) + defect


def open_run(tape: Tape, *, scenario: str) -> None:
    tape.add(
        "harness",
        ev.JournalOpened(role="harness", host="box", pid=100, wall_ns=1_760_000_000_000_000_000),
        ev.RunStarted(scenario=scenario, seed=7, backend="ray"),
    )
    tape.add(
        "driver",
        ev.FitCalled(
            trainer="TorchTrainer",
            workers=RANKS,
            run_name="digits-k3x9",
            storage_path="/runs/7/storage",
            settings={
                "train_loop_config": {"epochs": EPOCHS, "lr": 0.05},
                "num_workers": RANKS,
                "max_failures": 2,
                "max_preemption_failures": -1,
                "num_to_keep": None,
                "environment": {"RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.1"},
            },
            original_settings={
                "max_failures": 0,
                "name": "digits",
                "storage_path": "/home/me/ray_results",
            },
        ),
        after_ms=900,
    )


def start_attempt(
    tape: Tape, attempt: int, *, epoch: int, checkpoint: str | None, after_ms: float = 1500
) -> None:
    tape.add(
        "controller-11",
        ev.ControllerState(previous="INITIALIZING", state="SCHEDULING"),
        after_ms=30,
    )
    places = tuple(
        ev.WorkerPlace(
            rank=rank, pid=200 + 10 * attempt + rank, node_id=f"node{rank}" * 8, node_ip="10.0.0.1"
        )
        for rank in range(RANKS)
    )
    tape.add(
        "controller-11", ev.WorkerGroupStarted(attempt=attempt, workers=places), after_ms=after_ms
    )
    for place in places:
        tape.add(
            f"worker-{attempt}-{place.rank}",
            ev.WorkerStarted(
                attempt=attempt,
                rank=place.rank,
                world_size=RANKS,
                pid=place.pid,
                node_id=place.node_id,
                checkpoint=checkpoint,
                epoch=epoch,
            ),
            ev.CheckpointRead(attempt=attempt, rank=place.rank, checkpoint=checkpoint),
            after_ms=210,
        )
    tape.add(
        "controller-11",
        ev.ControllerState(previous="SCHEDULING", state="RUNNING"),
    )


def train_steps(
    tape: Tape, attempt: int, epoch: int, *, until: int | None = None, defect: float = 0.0
) -> None:
    for step in range(1, (until or STEPS) + 1):
        for rank in range(RANKS):
            loss = loss_at(rank, epoch, step, defect=defect)
            tape.add(
                f"worker-{attempt}-{rank}",
                ev.StepDone(attempt=attempt, rank=rank, epoch=epoch, step=step, losses=(loss,)),
                after_ms=30,
            )


def commit_epoch(tape: Tape, attempt: int, epoch: int) -> None:
    for rank in range(RANKS):
        mine = f"worker-{attempt}-{rank}"
        tape.add(
            mine,
            ev.ReportBegun(attempt=attempt, rank=rank, epoch=epoch),
            ev.UploadBegun(attempt=attempt, rank=rank, epoch=epoch),
            ev.UploadEnded(attempt=attempt, rank=rank, epoch=epoch),
            ev.ReportReturned(attempt=attempt, rank=rank, epoch=epoch),
            after_ms=8,
        )
    metrics = tuple({"loss": loss_at(rank, epoch, STEPS)} for rank in range(RANKS))
    tape.add(
        "controller-11",
        ev.Committed(
            attempt=attempt, epoch=epoch, checkpoint=f"checkpoint_{epoch:06d}", metrics=metrics
        ),
        after_ms=25,
    )


def strike_rank_1(tape: Tape, *, status: Status) -> None:
    node_id = "node1" * 8
    tape.add(
        "chaos",
        ev.GateReached(op=0, attempt=0, rank=1, pid=201, node_id=node_id),
        ev.FaultInvoked(
            op=0, fault="kill_worker (SIGKILL)", attempt=0, rank=1, pid=201, node_id=node_id
        ),
        after_ms=4,
    )
    tape.add(
        "chaos",
        ev.FaultEnded(op=0, status=status, detail="pid 201 of rank 1 is gone"),
        ev.GateReleased(op=0, attempt=0, rank=1),
        after_ms=12,
    )
    tape.add(
        "controller-11",
        ev.FailureDecided(
            attempt=0,
            decision="RETRY",
            charged="failures",
            error="WorkerGroupError",
            errors={0: "RuntimeError: connection closed by peer", 1: "ActorDiedError"},
        ),
        after_ms=640,
    )
    tape.add("controller-11", ev.ControllerState(previous="RUNNING", state="RESTARTING"))


def end_run(tape: Tape) -> None:
    checkpoint = f"checkpoint_{EPOCHS - 1:06d}"
    tape.add("driver", ev.FitReturned(metrics={"loss": 0.2}, checkpoint=checkpoint), after_ms=300)
    tape.add(
        "harness",
        ev.DriverExited(code=0),
        ev.LeftoversSearched(places=("processes", "placement groups")),
        ev.RunEnded(),
        after_ms=80,
    )


def clean_history() -> History:
    tape = Tape()
    open_run(tape, scenario="baseline")
    start_attempt(tape, 0, epoch=0, checkpoint=None)
    for epoch in range(EPOCHS):
        train_steps(tape, 0, epoch)
        commit_epoch(tape, 0, epoch)
    end_run(tape)
    return History(tape.entries)


def struck_history(
    *, defect: float = 0.0, status: Status = "ok", scenario: str = SCENARIO
) -> History:
    tape = Tape()
    open_run(tape, scenario=scenario)
    start_attempt(tape, 0, epoch=0, checkpoint=None)
    for epoch in range(2):
        train_steps(tape, 0, epoch)
        commit_epoch(tape, 0, epoch)
    train_steps(tape, 0, 2, until=5)
    strike_rank_1(tape, status=status)
    start_attempt(tape, 1, epoch=2, checkpoint="checkpoint_000001", after_ms=1900)
    for epoch in range(2, EPOCHS):
        train_steps(tape, 1, epoch, defect=defect)
        commit_epoch(tape, 1, epoch)
    end_run(tape)
    return History(tape.entries)


def plan_of(scenario: str, *, expect: Expect | None = None) -> Plan:
    op = Op(index=0, at=AtStep(epoch=2, step=5, rank=1), kill_worker=KillWorker())
    return Plan(
        scenario=scenario,
        slug="killed-in-an-epoch",
        file="/jobs/scenarios/killed-in-an-epoch.chaos.yaml",
        seed=7,
        cwd="/jobs",
        job=Job(script="/jobs/digits_ddp.py", args={"epochs": EPOCHS}, workers=RANKS),
        shape=Shape(nodes=3, cpus_per_node=1),
        ops=(op,),
        expect=expect or Expect(),
        limits=Limits(),
    )


def run_of(
    history: History,
    *,
    baseline: History | None = None,
    expect: Expect | None = None,
    scenario: str = SCENARIO,
) -> FinishedRun:
    plan = plan_of(scenario, expect=expect)
    return FinishedRun(
        plan=plan,
        env={"versions": {"ray": "2.60.0", "torch": "2.8.0", "python": "3.11.9"}, "cpus": 2},
        history=history,
        baseline=baseline,
        verdict=judge(plan, history, baseline),
        directory="reports/killed-in-an-epoch/7-20260101-101500",
        duration_s=21.4,
    )


@pytest.fixture(scope="session")
def valid_run() -> FinishedRun:
    return run_of(struck_history(), baseline=clean_history())


@pytest.fixture(scope="session")
def guilty_run() -> FinishedRun:
    return run_of(struck_history(defect=0.09), baseline=clean_history())


@pytest.fixture(scope="session")
def unknown_run() -> FinishedRun:
    return run_of(struck_history(status="info"), baseline=clean_history())


@pytest.fixture(scope="session")
def expected_invalid_run() -> FinishedRun:
    expect = Expect(verdict="fail", check="trajectory")
    return run_of(struck_history(defect=0.09), baseline=clean_history(), expect=expect)


@pytest.fixture(scope="session")
def renamed(valid_run: FinishedRun) -> Callable[[str], FinishedRun]:
    def rename(scenario: str) -> FinishedRun:
        plan = valid_run.plan.model_copy(update={"scenario": scenario})
        judged = valid_run.verdict.model_copy(update={"headline": f"About {scenario}"})
        return replace(valid_run, plan=plan, verdict=judged)

    return rename
