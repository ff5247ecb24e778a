"""Children that multiprocessing spawns are forked from a copy of the command."""

import pytest

from chaos.model.event import (
    Leftover,
    StepDone,
    WorkerGroupStarted,
)
from chaos.report.outcome import FinishedRun
from tests.python.conftest import RunScenario

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(600)]


def last_losses(run: FinishedRun) -> list[tuple[int, int, int, str]]:
    last = max(event.attempt for _, event in run.history.select_events(WorkerGroupStarted))
    steps = [event for _, event in run.history.select_events(StepDone) if event.attempt == last]
    return sorted((e.rank, e.epoch, e.step, str(e.losses)) for e in steps)


@pytest.mark.nightly
def test_spawned_children_that_are_forked_come_out_as_new_interpreters(run: RunScenario) -> None:
    embedded, real = (run("spawned_killed_mid_epoch", backend=b) for b in ("fork", "python"))

    assert real.plan.backend == "python"
    for done in (embedded, real):
        assert done.verdict.status == "pass", done.verdict.headline
    assert last_losses(embedded) == last_losses(real)
    checks = [[(r.check, r.status) for r in done.verdict.results] for done in (embedded, real)]
    assert checks[0] == checks[1]
    assert embedded.verdict.restarts == real.verdict.restarts


@pytest.mark.nightly
def test_the_death_of_the_parent_alone_ends_what_torch_has_spawned(run: RunScenario) -> None:
    done = run("spawned_parent_killed")

    assert done.verdict.status == "pass", done.verdict.headline
    assert not done.history.count(Leftover)
