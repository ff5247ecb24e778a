"""Jobs of other frameworks, as their documentation writes them: each comes out as it should.

Every file of `scenarios/frameworks` is run as a person runs it. What the development group does
not install is skipped with its reason; what CI has no time for is marked nightly.
"""

import importlib.util
from pathlib import Path

import pytest
from rich.console import Console

from chaos.harness import Harness
from chaos.launch.forked.backend import ForkBackend
from chaos.run.clock import SystemClock
from tests.called import chaos
from tests.forked.conftest import ROOT

SCENARIOS = sorted((ROOT / "scenarios/frameworks").glob("*.chaos.yaml"))
JOBS = {
    "digits_amp_ema": "amp",
    "digits_lightning": "lightning",
    "digits_resnet18": "resnet18",
    "digits_tensorflow": "tensorflow",
    "digits_transformers": "transformers",
    "tumours_lightgbm": "lightgbm",
    "tumours_xgboost": "xgboost",
}
IN_CI = {
    "tensorflow_optimizer_not_saved",
}
EXTRAS = ("lightning", "lightgbm", "tensorflow", "transformers", "xgboost")
pytestmark = pytest.mark.timeout(240)


def name_of(file: Path) -> str:
    return file.name.removesuffix(".chaos.yaml")


def need(name: str) -> None:
    """Skip where the framework that a name begins with is not installed."""
    for extra in EXTRAS:
        if name.startswith(extra) and importlib.util.find_spec(extra) is None:
            pytest.skip(f"pip install ray-train-chaos[{extra}]")


@pytest.fixture(scope="module")
def harness(backend: ForkBackend, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    reports = tmp_path_factory.mktemp("frameworks")
    return Harness(reports, Console(quiet=True), ROOT, backend, SystemClock())


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(
            file, id=name_of(file), marks=() if name_of(file) in IN_CI else pytest.mark.nightly
        )
        for file in SCENARIOS
        if not name_of(file).startswith("ray_data")  # which the embedded backend does not have
    ],
)
def test_a_framework_comes_out_as_its_scenario_expects(file: Path, harness: Harness) -> None:
    need(name_of(file))

    (plan,) = harness.load_plans([file], seed=0, backend="fork")
    row = harness.run_suite_plan(plan)

    assert row.standing == "expected", row.error or (row.verdict and row.verdict.headline)


@pytest.mark.nightly
@pytest.mark.parametrize("job", JOBS)
def test_a_right_job_of_a_framework_survives_an_audit(job: str, tmp_path: Path) -> None:
    need(JOBS[job])
    script = ROOT / f"scenarios/jobs/{job}.py"

    ran = chaos(
        "audit", script, "--max-runs", "12", "--no-confirm", "--reports", tmp_path, folder=ROOT
    )

    assert ran.code == 0, ran.out + ran.err


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ("tunes", "runs trials of Ray Tune"),
        ("streams", "the job uses Ray Data (`ray.data.from_items`, tests/forked/jobs/streams.py:"),
        ("tensorflow_early", "computes with TensorFlow before its fit()"),
    ],
)
def test_what_cannot_be_watched_is_refused_by_name(job: str, words: str, tmp_path: Path) -> None:
    need(job)
    script = ROOT / f"tests/forked/jobs/{job}.py"

    ran = chaos(
        "audit", script, "--max-runs", "1", "--no-confirm", "--reports", tmp_path, folder=ROOT
    )

    assert ran.code == 3, ran.out
    assert words in " ".join(ran.err.split())
