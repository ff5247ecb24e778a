"""What the seed decides is written down as a scenario first, and that is the same run."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from chaos.extensions.lab.soak_result import build_soak_run
from chaos.harness import Harness
from chaos.launch.backends import open_backend
from chaos.launch.forked.backend import ForkBackend
from chaos.report.screen import ConsoleAnnouncer
from chaos.run.clock import SystemClock
from tests.forked.conftest import ROOT

pytestmark = pytest.mark.timeout(400)
SCENARIO = """\
scenario: machines that end
job:
  script: {script}
  args: {{epochs: 3}}
  workers: 2
  failure: {{max_failures: 3}}
lifetimes: {{mean_steps: 20, epochs: 3, steps_per_epoch: 23}}
"""


@pytest.mark.nightly
def test_a_drawn_run_can_be_run_again_without_its_seed(
    backend: ForkBackend, tmp_path: Path
) -> None:
    said = io.StringIO()
    harness = Harness(tmp_path, Console(file=said, width=200), ROOT, backend, SystemClock())
    file = tmp_path / "machines.chaos.yaml"
    file.write_text(SCENARIO.format(script=ROOT / "scenarios/jobs/digits_ddp.py"))

    (plan,) = harness.load_plans([file], seed=3, backend="fork")
    first = harness.run_plan(plan)
    drawn = Path(first.directory) / "drawn.chaos.yaml"
    (again,) = harness.load_plans([drawn], seed=99, backend="fork")
    second = harness.run_plan(again)

    assert (first.verdict.status, second.verdict.status) == ("pass", "pass")
    assert len(plan.ops) > 1
    assert again.ops == plan.ops
    assert not (Path(second.directory) / "drawn.chaos.yaml").exists()
    shown = said.getvalue()
    assert "drawn from seed 3" in shown
    assert shown.index(str(plan.ops[-1])) < shown.index("injected")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "grows"),
    [
        ("for_long", set()),
        ("for_long_shards_opened", set()),
        ("for_long_wrong_from_third_resume", set()),
        ("for_long_descriptors_leaked", {"open_files"}),
        ("for_long_file_per_start", {"entries"}),
    ],
)
def test_a_long_run_names_what_adds_up_and_nothing_else(
    name: str, grows: set[str], tmp_path: Path
) -> None:
    (here := tmp_path / "here").mkdir()
    with open_backend("fork", ConsoleAnnouncer(Console(quiet=True))) as backend:
        harness = Harness(tmp_path / "reports", Console(quiet=True), here, backend, SystemClock())
        file = ROOT / f"scenarios/torchrun/{name}.chaos.yaml"
        (plan,) = harness.load_plans([file], seed=0, backend="fork")
        run = harness.run_plan(plan)
    figures = build_soak_run(run)

    assert run.verdict.as_expected, run.verdict.headline
    assert figures.resumes >= 2
    assert figures.made == figures.planned
    assert {growth.counted for growth in figures.growths} == grows
