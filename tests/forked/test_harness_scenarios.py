"""The suite under `scenarios/` on the embedded backend: each file comes out as it expects.

CI takes some, `make nightly` all. Those of `smoke/` are compared with Ray in
`tests/ray/test_backend_parity.py`, those of `frameworks/` run in `test_harness_frameworks.py`; of
`guilty/`, whose jobs are audited in `test_audit_verdicts.py`, CI takes none.
"""

from pathlib import Path

import pytest
from rich.console import Console

from chaos.harness import Harness
from chaos.launch.forked.backend import ForkBackend
from chaos.run.clock import SystemClock
from chaos.scenario_file.load import load_scenario
from tests.forked.conftest import ROOT

FOLDERS = (
    "worker",
    "node",
    "spot",
    "storage",
    "control",
    "elastic",
    "budget",
    "drawn",
    "ray-defects",
)
GUILTY = "guilty"
IN_CI = {
    "node/lost_in_upload",
}
pytestmark = pytest.mark.timeout(400)


def name_of(file: Path) -> str:
    return f"{file.parent.name}/{file.name.removesuffix('.chaos.yaml')}"


FILES = [
    file
    for folder in (*FOLDERS, GUILTY)
    for file in sorted((ROOT / "scenarios" / folder).glob("*.chaos.yaml"))
    if load_scenario(file).job.needs_backend != "ray"
]


@pytest.fixture(scope="module")
def harness(backend: ForkBackend, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    reports = tmp_path_factory.mktemp("suite")
    return Harness(reports, Console(quiet=True), ROOT, backend, SystemClock())


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(f, id=name_of(f), marks=() if name_of(f) in IN_CI else pytest.mark.nightly)
        for f in FILES
    ],
)
def test_a_scenario_comes_out_as_it_expects(file: Path, harness: Harness) -> None:
    (plan,) = harness.load_plans([file], seed=0, backend="fork")
    row = harness.run_suite_plan(plan)

    if row.standing == "skipped":
        pytest.skip(row.headline)
    assert row.standing == "expected", row.headline


def test_what_ci_takes_is_there() -> None:
    assert {name_of(file) for file in FILES} >= IN_CI
