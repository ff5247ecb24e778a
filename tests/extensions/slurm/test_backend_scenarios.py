"""Scripts for sbatch under a real Slurm: preempted, requeued, signalled, and what comes back."""

import os

import pytest

from chaos.model.event import FailureDecided, FitRaised, WorkerGroupStarted
from tests.extensions.slurm.conftest import SCENARIOS, RunScenario

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(300)]
IN_CI = "preempted"
OTHERS = sorted(
    name
    for file in SCENARIOS.glob("*.chaos.yaml")
    if (name := file.name.removesuffix(".chaos.yaml")) != IN_CI
)


def test_a_preempted_job_is_requeued_and_goes_on_from_its_last_save(
    run: RunScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    # `python` of the script is the one that runs chaos, whether its environment is active or not.
    monkeypatch.setenv("PATH", os.defpath)

    done = run(IN_CI)

    assert done.verdict.status == "pass", done.verdict.headline
    assert done.verdict.restarts.resumed == 1
    decided = [
        (e.attempt, e.decision, e.charged) for _, e in done.history.select_events(FailureDecided)
    ]
    assert decided == [(0, "RETRY", "nothing")]
    groups = [event for _, event in done.history.select_events(WorkerGroupStarted)]
    assert [e.attempt for e in groups] == [0, 1]
    assert {place.node_id for e in groups for place in e.workers} == {"node-0", "node-1"}


@pytest.mark.nightly
@pytest.mark.parametrize("name", OTHERS)
def test_a_scenario_is_as_expected(run: RunScenario, name: str) -> None:
    done = run(name)

    assert done.verdict.as_expected, done.verdict.headline


@pytest.mark.nightly
def test_the_end_of_a_job_in_its_grace_is_told(run: RunScenario) -> None:
    done = run("preempted_in_grace")

    [raised] = [event for _, event in done.history.select_events(FitRaised)]
    assert raised.error == "FAILED"
    assert "within its grace" in raised.message
