"""Before a job's first save is whole, its command is started again as it was at first."""

from pathlib import Path

import pytest

from chaos.model.event import FileLoaded, StartedAgain
from chaos.report.outcome import FinishedRun
from tests.python.conftest import RunScenario

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(300)]

# Right, and strict: `--go-on` without a save ends it.
JOB = """\
import os
import sys

import torch

torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
adam = torch.optim.Adam(net.parameters(), lr=0.1)
done = 0
if "--go-on" in sys.argv:
    saved = torch.load("kept/newest")
    net.load_state_dict(saved["net"])
    adam.load_state_dict(saved["adam"])
    done = saved["done"]
os.makedirs("kept", exist_ok=True)
for number in range(done, 12):
    data = torch.randn(8, 4, generator=torch.Generator().manual_seed(number))
    loss = net(data).pow(2).mean()
    adam.zero_grad()
    loss.backward()
    adam.step()
    if number % 4 == 3:
        parts = {"net": net.state_dict(), "adam": adam.state_dict(), "done": number + 1}
        torch.save(parts, "kept/being-made")
        os.rename("kept/being-made", "kept/newest")
"""
SCENARIO = """\
scenario: a strict script is killed around its first save
job:
  script: {script}
  launcher: python
  workers: 1
  restart: command
  restart_args: [--go-on]
  failure: {{max_failures: {kills}}}
faults:
{faults}
"""


def killed_at(run: RunScenario, folder: Path, *places: str) -> FinishedRun:
    (script := folder / "strict.py").write_text(JOB, encoding="utf-8")
    faults = "\n".join(f"  - at: {place}\n    kill_worker: {{}}" for place in places)
    text = SCENARIO.format(script=script, faults=faults, kills=len(places))
    (file := folder / "strict.chaos.yaml").write_text(text, encoding="utf-8")
    return run(file)


def first_args(done: FinishedRun) -> list[bool]:
    return [event.has_first_args for _, event in done.history.select_events(StartedAgain)]


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("{epoch: 0, step: 2, rank: 0}", id="before it", marks=pytest.mark.nightly),
        pytest.param("{epoch: 0, moment: saving, rank: 0}", id="within it"),
        pytest.param(
            "{epoch: 0, moment: renaming, rank: 0}",
            id="before its name",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_a_start_that_has_nothing_to_read_is_without_the_argument(
    run: RunScenario, tmp_path: Path, place: str
) -> None:
    done = killed_at(run, tmp_path, place)

    assert done.verdict.status == "pass", done.verdict.headline
    assert first_args(done) == [True]
    assert any(note.startswith("tried without `--go-on`: start 1") for note in done.verdict.notes)
    assert not done.history.count(FileLoaded)


def test_a_start_after_the_first_save_has_the_argument(run: RunScenario, tmp_path: Path) -> None:
    early, late = "{epoch: 0, step: 2, rank: 0}", "{epoch: 1, step: 1, rank: 0}"

    done = killed_at(run, tmp_path, early, late)

    assert done.verdict.status == "pass", done.verdict.headline
    assert first_args(done) == [True, False]
    assert done.verdict.restarts.resumed == 1
