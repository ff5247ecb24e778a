"""What the seed decides is written down as a scenario first, and that is the same run."""

import io
from pathlib import Path

from rich.console import Console

from chaos.backends.fork.backend import ForkBackend
from chaos.harness import Harness
from chaos.run.clock import SystemClock
from tests.fork.conftest import ROOT

SCENARIO = """\
scenario: machines that end
job:
  script: {script}
  args: {{epochs: 4}}
  workers: 2
  failure: {{max_failures: 3}}
lifetimes: {{mean_steps: 8, epochs: 4, steps_per_epoch: 6}}
"""


def test_a_drawn_run_can_be_run_again_without_its_seed(
    backend: ForkBackend, tmp_path: Path
) -> None:
    said = io.StringIO()
    harness = Harness(tmp_path, Console(file=said, width=200), ROOT, backend, SystemClock())
    file = tmp_path / "machines.chaos.yaml"
    file.write_text(SCENARIO.format(script=ROOT / "scenarios/jobs/digits_ddp.py"))

    (plan,) = harness.plans([file], seed=3, backend="fork")
    first = harness.run_plan(plan)
    drawn = Path(first.directory) / "drawn.chaos.yaml"
    (again,) = harness.plans([drawn], seed=99, backend="fork")
    second = harness.run_plan(again)

    assert (first.verdict.status, second.verdict.status) == ("pass", "pass")
    assert len(plan.ops) > 1
    assert again.ops == plan.ops
    assert not (Path(second.directory) / "drawn.chaos.yaml").exists()
    shown = said.getvalue()
    assert "drawn from seed 3" in shown
    assert shown.index(str(plan.ops[-1])) < shown.index("injected")
