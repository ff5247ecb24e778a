"""A script that is started twice: two that write are named, and one that writes alone is right."""

import pytest

from chaos.faults.start_second_driver import StartSecondDriver
from chaos.model.event import DriverExited, WorkerGroupStarted
from chaos.model.fault_entry import FaultEntry
from chaos.model.history import History
from chaos.model.trigger import AtStep
from tests.forked.conftest import ROOT, Judged, RunJob

pytestmark = pytest.mark.timeout(180)
JOB = ROOT / "scenarios/jobs/digits_one_owner.py"
AT = AtStep(epoch=1, step=4, rank=0)


def started_twice(
    run: RunJob, guard: str, baseline: History | None = None, **settings: object
) -> Judged:
    fault = StartSecondDriver.model_validate(settings)
    entry = FaultEntry(at=AT, start_second_driver=fault)
    return run(script=JOB, workers=2, guard=guard, ops=(entry,), baseline=baseline)


@pytest.fixture
def baseline(run: RunJob) -> History:
    return run(script=JOB, workers=2, guard="none").history


def numbers(judged: Judged) -> list[int]:
    return sorted(event.attempt for _, event in judged.history.select_events(WorkerGroupStarted))


@pytest.mark.parametrize(
    "frozen", [{}, pytest.param({"frozen_s": 2}, marks=pytest.mark.nightly)], ids=["", "late"]
)
def test_two_starts_that_write_are_named(
    run: RunJob, baseline: History, frozen: dict[str, int]
) -> None:
    judged = started_twice(run, "none", baseline, **frozen)

    assert numbers(judged) == [0, 1]
    assert [e.start for _, e in judged.history.select_events(DriverExited)] in ([0, 1], [1, 0])
    assert judged.verdict.status == "fail"
    assert "two drivers of one run wrote side by side" in judged.verdict.headline
    assert next(r.check for r in judged.verdict.results if r.status == "fail") == "single-writer"


@pytest.mark.parametrize(
    ("guard", "groups"),
    [
        pytest.param("lock", 1, marks=pytest.mark.nightly),
        pytest.param("lock-in-loop", 4, marks=pytest.mark.nightly),
        pytest.param("newest", 4, marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize(
    "frozen", [{}, pytest.param({"frozen_s": 2}, marks=pytest.mark.nightly)], ids=["", "late"]
)
def test_a_start_that_ends_or_gives_way_leaves_the_other_right(
    run: RunJob, baseline: History, guard: str, groups: int, frozen: dict[str, int]
) -> None:
    judged = started_twice(run, guard, baseline, **frozen)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert numbers(judged) == list(range(groups))
