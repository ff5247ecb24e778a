"""What the probe sees of real jobs: their state, inputs, files and storage."""

from pathlib import Path
from typing import Any

import pytest

from chaos.faults.kill_worker import KillWorker
from chaos.model.event import (
    CheckpointDeleted,
    Committed,
    Component,
    Declared,
    FaultEnded,
    FileLoaded,
    FileSaveBegun,
    FileSaved,
    PartUploaded,
    ProbeFailed,
    ProcessSeen,
    Repositioned,
    StateSeen,
    StepDone,
    StorageSeen,
    TrainFnEnded,
    WatchCost,
)
from chaos.model.fault_entry import FaultEntry
from chaos.model.history import History
from chaos.model.trigger import AtMoment, AtRecovery, Stage
from chaos.model.watch import Watch
from tests.forked.conftest import ROOT, RunJob, kill

pytestmark = pytest.mark.timeout(120)
JOBS = ROOT / "scenarios/jobs"
OWN = ROOT / "tests/forked/jobs/own_directory.py"
KEPT = ("model", "optimizer.momentum_buffer")
NOTHING = Watch(state=False, inputs=False, files=False)


def entered(history: History) -> dict[tuple[int, int, int], dict[str, Component]]:
    """Return what was entered with, by (attempt, rank, epoch)."""
    return {
        (e.attempt, e.rank, e.epoch): {part.name: part for part in e.components}
        for _, e in history.select_events(StateSeen)
        if e.moment == "entered"
    }


def differing(job: History, baseline: History) -> dict[tuple[int, int], set[str]]:
    """Give, for the second attempt, the components that are not the baseline's where it resumed."""
    theirs = entered(baseline)
    return {
        (rank, epoch): {
            name for name, part in parts.items() if theirs[0, rank, epoch][name] != part
        }
        for (attempt, rank, epoch), parts in entered(job).items()
        if attempt == 1
    }


def of(history: History, kind: Any) -> list[Any]:
    return [event for _, event in history.select_events(kind)]


@pytest.mark.nightly
def test_every_part_of_a_right_job_comes_back_as_the_baseline_had_it(run: RunJob) -> None:
    script = JOBS / "digits_ddp.py"
    baseline = run(script=script, workers=2).history

    judged = run(script=script, workers=2, ops=(kill(epoch=2, step=5, rank=1),), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert set(differing(judged.history, baseline)) == {(r, e) for r in (0, 1) for e in (2, 3)}
    assert not any(differing(judged.history, baseline).values())
    steps = {(e.rank, e.epoch, e.step): e.inputs for e in of(baseline, StepDone)}
    assert all(e.inputs == steps[e.rank, e.epoch, e.step] for e in of(judged.history, StepDone))
    assert None not in steps.values()
    assert not of(judged.history, ProbeFailed)


def test_a_momentum_that_was_lost_is_the_part_that_differs(run: RunJob) -> None:
    script = JOBS / "digits_optimizer_lost.py"
    baseline = run(script=script, workers=2).history

    history = run(script=script, workers=2, ops=(kill(epoch=2, step=5, rank=1),)).history

    lost = entered(history)[1, 0, 2]
    assert "optimizer.momentum_buffer" in differing(history, baseline)[0, 2]
    assert not differing(history, baseline)[0, 2] & {"model", "rng.torch", "schedule"}
    assert (lost["optimizer.momentum_buffer"].digest, lost["optimizer.state"].count) == ("", 0)


def test_files_and_storage_are_traced_from_save_to_load(run: RunJob) -> None:
    history = run(ops=(kill(epoch=1, step=2),)).history

    loaded = of(history, FileLoaded)
    assert [(e.saved_attempt, e.saved_rank, e.saved_epoch, e.saved_step) for e in loaded] == [
        (0, 0, 0, 4)
    ]
    assert len(of(history, FileSaveBegun)) == len(of(history, FileSaved)) == 3
    after_strike, at_end = of(history, StorageSeen)
    first, *_ = of(history, PartUploaded)
    assert (after_strike.op, at_end.op) == (0, None)
    assert {c.name: c.files for c in after_strike.checkpoints} == {first.checkpoint: first.files}
    kept = {c.name for c in at_end.checkpoints}
    assert kept == {e.checkpoint for e in of(history, Committed)} - {
        e.checkpoint for e in of(history, CheckpointDeleted)
    }


def test_a_train_functions_end_and_the_cost_of_watching_are_recorded(run: RunJob) -> None:
    history = run().history
    failed = run(**{"raise": True}).history

    assert [(e.epoch, e.error) for e in of(history, TrainFnEnded)] == [(3, None)]
    assert {e.error for e in of(failed, TrainFnEnded)} == {
        "ValueError: the data of epoch 1 is missing"
    }
    costs = of(history, WatchCost)
    assert [(e.epoch, e.steps) for e in costs] == [(0, 4), (1, 4), (2, 4)]
    assert all(0 < e.state_ns < e.watch_ns for e in costs)
    sizes = of(history, ProcessSeen)
    assert [e.epoch for e in sizes] == [0, 1, 2]
    assert all(e.open_files > 2 and e.memory_bytes > 1 << 20 for e in sizes)


def test_what_is_turned_off_records_nothing(run: RunJob) -> None:
    history = run(watch=NOTHING, ops=(kill(epoch=1, step=2),)).history

    seen = {type(entry.event) for entry in history}
    assert not seen & {StateSeen, FileSaved, FileLoaded, PartUploaded, StorageSeen}
    assert {e.inputs for e in of(history, StepDone)} == {None}


# -- a job that keeps its checkpoints in a directory of its own ------------------------------------


@pytest.mark.parametrize(
    ("when", "goes_on"),
    [
        pytest.param("before", (2, 0), marks=pytest.mark.nightly),
        ("after", (2, 0)),
        ("often", (2, 2)),
    ],
)
def test_a_job_with_a_directory_of_its_own_is_followed_to_where_it_goes_on(
    run: RunJob, when: str, goes_on: tuple[int, int]
) -> None:
    history = run(script=OWN, workers=2, when=when, ops=(kill(epoch=2, step=3, rank=1),)).history

    moved = of(history, Repositioned)
    assert {(e.rank, e.epoch, e.step) for e in moved} == {(0, *goes_on), (1, *goes_on)}
    again = [(e.epoch, e.step) for e in of(history, StepDone) if (e.attempt, e.rank) == (1, 1)]
    assert again[0] == (goes_on[0], goes_on[1] + 1)
    assert [e.epoch for e in of(history, Committed)] == [0, 1, 2, 3]
    assert not of(history, ProbeFailed)


def test_a_save_within_an_epoch_is_a_place_that_every_rank_is_seen_to_enter_at(run: RunJob) -> None:
    history = run(script=OWN, workers=2, when="often", ops=(kill(epoch=2, step=3, rank=1),)).history

    kept = {
        (e.attempt, e.rank): [p.digest for p in e.components if p.name in KEPT]
        for e in of(history, StateSeen)
        if (e.moment, e.epoch, e.step) == ("entered", 2, 2)
    }
    assert set(kept) == {(attempt, rank) for attempt in (0, 1) for rank in (0, 1)}
    assert all(digests == kept[0, 0] for digests in kept.values())
    assert len(kept[0, 0]) == len(KEPT)


def test_a_kill_in_the_middle_of_a_save_leaves_half_a_file(run: RunJob) -> None:
    op = FaultEntry(at=AtMoment(epoch=1, moment="saving", rank=0), kill_worker=KillWorker())

    history = run(script=OWN, workers=2, ops=(op,)).history

    assert [e.status for e in of(history, FaultEnded)] == ["ok"]
    torn = [e for e in of(history, FileSaveBegun) if (e.attempt, e.epoch) == (0, 1)]
    assert len(torn) == 1
    assert not any((e.attempt, e.epoch) == (0, 1) for e in of(history, FileSaved))
    assert [(e.saved_epoch, e.error) for e in of(history, FileLoaded)] == [(0, None)]
    assert [e.epoch for e in of(history, Committed)] == [0, 1, 2, 3]


def again(stage: Stage) -> tuple[FaultEntry, ...]:
    """Kill rank 1, then rank 0 at a stage of the recovery."""
    at = AtRecovery(recovering_from=0, stage=stage, rank=0)
    return kill(epoch=2, step=3, rank=1), FaultEntry(at=at, kill_worker=KillWorker())


@pytest.mark.parametrize("watch", [Watch(), NOTHING], ids=["watched", "unwatched"])
def test_a_kill_inside_a_load_comes_before_the_job_has_what_it_loads(
    run: RunJob, watch: Watch
) -> None:
    history = run(script=OWN, workers=2, ops=again("loading"), watch=watch).history

    assert [e.status for e in of(history, FaultEnded)] == ["ok", "ok"]
    second = {(e.attempt, e.rank) for e in of(history, FileLoaded)}
    assert (1, 0) not in second
    assert (2, 0) in second
    assert not any(e.attempt == 1 for e in of(history, StepDone))
    assert [e.epoch for e in of(history, Committed)] == [0, 1, 2, 3]


def test_a_kill_as_the_first_step_begins_comes_after_the_load(run: RunJob) -> None:
    history = run(script=OWN, workers=2, ops=again("first_step")).history

    assert [e.status for e in of(history, FaultEnded)] == ["ok", "ok"]
    assert (1, 0) in {(e.attempt, e.rank) for e in of(history, FileLoaded)}
    assert (1, 0) not in {(e.attempt, e.rank) for e in of(history, StepDone)}
    assert [e.epoch for e in of(history, Committed)] == [0, 1, 2, 3]


# -- what a job declares ---------------------------------------------------------------------------

DECLARES = """
import chaos
import ray.train
import torch
from ray.train.torch import TorchTrainer

chaos.declare("too early", 1)

def train_loop():
    cursor = {"sample": 0}
    chaos.declare("cursor", cursor)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        cursor["sample"] += 1
        model(torch.ones(2, 1)).sum().backward()
        optimizer.step()
        ray.train.report({"epoch": epoch})

TorchTrainer(train_loop, scaling_config=ray.train.ScalingConfig(num_workers=1)).fit()
"""


@pytest.fixture
def declaring(tmp_path: Path) -> Path:
    script = tmp_path / "declares.py"
    script.write_text(DECLARES)
    return script


def test_what_a_job_declares_is_a_part_of_its_state(run: RunJob, declaring: Path) -> None:
    history = run(script=declaring).history

    assert {e.name for e in of(history, Declared)} == {"cursor"}
    sizes = [parts["declared.cursor"].size for parts in entered(history).values()]
    assert sizes == [1.0, 2.0]


@pytest.mark.nightly
def test_three_ranks_sum_alike_after_a_restart_and_a_report_before_training_is_no_epoch(
    run: RunJob,
) -> None:
    script = ROOT / "tests/forked/jobs/three_ranks.py"
    baseline = run(script=script, workers=3).history

    judged = run(script=script, workers=3, ops=(kill(epoch=1, step=4, rank=1),), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert [(c.attempt, c.epoch, c.early) for c in of(judged.history, Committed)] == [
        (0, -1, True),
        (0, 0, False),
        (1, 0, True),
        (1, 1, False),
        (1, 2, False),
    ]
