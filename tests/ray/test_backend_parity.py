"""The embedded backend comes to what a cluster comes to, scenario by scenario."""

from pathlib import Path
from typing import Any

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.model.event import Committed, FailureDecided
from chaos.model.verdict import Verdict
from chaos.run.directory import RunDirectory
from tests.ray.command import Ran, chaos

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

BESIDE = "tests/ray/inside_async_save.chaos.yaml"
SHRINKING = ("scenarios/elastic/fewer_workers.chaos.yaml", "tests/ray/reshards.chaos.yaml")
GROWING = "tests/ray/reshards_twice.chaos.yaml"
# A loss that is timed by the clock: how far training came until then may differ.
CLOCKED = {"spot_notice_then_loss", "several_faults"}


@pytest.fixture(scope="module")
def fork(chosen: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    reports = tmp_path_factory.mktemp("fork")
    return chaos("run", *chosen, "--backend", "fork", reports=reports)


def outcome(run: Path) -> dict[str, Any]:
    """Return what a run came to, apart from times, pids and names."""
    directory = RunDirectory(run)
    plan, history = directory.load_plan(), directory.load_history()
    analysis = RunAnalysis(plan, history, directory.load_history("baseline.jsonl"))
    verdict = Verdict.model_validate_json((run / "verdict.json").read_bytes())
    return {
        "status": verdict.status,
        "broken": [result.check for result in verdict.broken],
        "attempts": len(analysis.run.attempts),
        "charged": [event.charged for _, event in history.select_events(FailureDecided)],
        "resumed": [restart.epoch for restart in analysis.restarts],
        "losses": {
            place: [(step.step, step.losses) for step in steps]
            for place, steps in analysis.run.lineage.steps.items()
        },
        "last metrics": [e.metrics for _, e in history.select_events(Committed)][-1],
    }


def by_scenario(ran: Ran) -> dict[str, Path]:
    return {run.parent.name: run for run in ran.runs()}


def test_both_backends_ran_the_same_scenarios(demo: Ran, fork: Ran) -> None:
    assert fork.code == demo.code == 0, fork.output
    assert set(by_scenario(fork)) == set(by_scenario(demo))


def test_verdict_attempts_charges_and_every_surviving_loss_are_equal(demo: Ran, fork: Ran) -> None:
    on_ray, on_fork = by_scenario(demo), by_scenario(fork)
    for scenario in on_ray:
        both = [outcome(ran[scenario]) for ran in (on_ray, on_fork)]
        if scenario in CLOCKED:
            for one in both:
                del one["resumed"]

        assert both[1] == both[0], scenario


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", SHRINKING)
def test_an_elastic_job_shrinks_on_both_and_only_ray_waits_for_room(
    scenario: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Ray 2.60 asks for as many workers as before until it hears that a node is gone."""
    on: dict[str, dict[str, Any]] = {}
    for backend in ("fork", "ray"):
        reports = tmp_path_factory.mktemp(backend)
        ran = chaos("run", scenario, "--backend", backend, reports=reports)
        assert ran.code == 0, ran.output
        on[backend] = outcome(by_scenario(ran)[Path(scenario).name.partition(".")[0]])

    waits = on["ray"].pop("charged")
    assert on["fork"].pop("charged") == ["failures"]
    assert waits[0] == "failures"
    assert set(waits[1:]) <= {"controller"}
    assert on["fork"] == on["ray"]


@pytest.mark.nightly
def test_a_kill_inside_a_save_beside_training_comes_to_the_same_on_both(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    on: dict[str, dict[str, Any]] = {}
    for backend in ("fork", "ray"):
        ran = chaos("run", BESIDE, "--backend", backend, reports=tmp_path_factory.mktemp(backend))
        assert ran.code == 0, ran.output
        on[backend] = outcome(by_scenario(ran)["inside_async_save"])

    assert on["fork"] == on["ray"]
    assert on["ray"]["status"] == "pass"


@pytest.mark.nightly
def test_a_sharded_job_that_shrinks_and_grows_is_right_on_ray(tmp_path: Path) -> None:
    """Ray looks for room by the clock, so that no two runs grow at the same step."""
    ran = chaos("run", GROWING, "--backend", "ray", reports=tmp_path)

    assert ran.code == 0, ran.output
    [run] = ran.runs()
    verdict = Verdict.model_validate_json((run / "verdict.json").read_bytes())
    said = {result.check: result.summary for result in verdict.results}
    assert "came back at 2 resumes" in said["state"]
    assert "all ranks together saw the samples that the baseline's saw" in said["trajectory"]
