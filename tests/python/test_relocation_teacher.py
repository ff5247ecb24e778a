"""A job that trains a teacher at each start, before it reads its save: it resumes there."""

from pathlib import Path

import pytest

from tests.python.conftest import RunScenario

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(600)]

JOB = """\
import os
import torch
from torch import nn

def fitted():
    torch.manual_seed(5)
    teacher, x = nn.Linear(4, 1), torch.randn(16, 4)
    sgd = torch.optim.SGD(teacher.parameters(), lr=0.1)
    for _ in range(7):
        loss = (teacher(x) - x.sum(1, keepdim=True)).square().mean()
        sgd.zero_grad()
        loss.backward()
        sgd.step()
    return teacher.requires_grad_(False)

def main():
    teacher = fitted()
    torch.manual_seed(6)
    net = nn.Linear(4, 1)
    adam, begun = torch.optim.Adam(net.parameters(), lr=0.05), 0
    if os.path.exists("saved.pt"):
        saved = torch.load("saved.pt")
        net.load_state_dict(saved["net"])
        adam.load_state_dict(saved["adam"])
        begun = saved["epoch"] + 1
    for epoch in range(begun, 5):
        dice = torch.Generator().manual_seed(epoch)
        for _ in range(3):
            x = torch.randn(8, 4, generator=dice)
            loss = (net(x) - teacher(x)).square().mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
        torch.save({"net": net.state_dict(), "adam": adam.state_dict(), "epoch": epoch}, "new.pt")
        os.replace("new.pt", "saved.pt")

main()
"""
SCENARIO = """\
scenario: killed twice after its teacher was trained
job: {launcher: python, script: train.py, workers: 1, failure: {max_failures: 2}}
faults:
  - at: {epoch: 2, step: 2}
    kill_worker: {}
  - at: {epoch: 3, step: 1}
    kill_worker: {}
"""


def test_it_is_compared_from_where_it_resumed(tmp_path: Path, run: RunScenario) -> None:
    (tmp_path / "train.py").write_text(JOB, encoding="utf-8")
    file = tmp_path / "teacher.chaos.yaml"
    file.write_text(SCENARIO, encoding="utf-8")

    done = run(file)

    assert done.verdict.status == "pass", done.verdict.headline
    assert done.verdict.restarts.resumed == 2
    assert [resume.epoch for resume in done.verdict.diagnosis] == [2, 3]


def test_a_teacher_that_is_trained_after_the_save_was_read_is_no_second_start(
    tmp_path: Path, run: RunScenario
) -> None:
    """The student was said to have lost its model, as training began where the teacher's does."""
    late_teacher = JOB.replace("    teacher = fitted()\n", "").replace(
        "    for epoch in range", "    teacher = fitted()\n    for epoch in range"
    )
    (tmp_path / "train.py").write_text(late_teacher, encoding="utf-8")
    file = tmp_path / "teacher.chaos.yaml"
    # In the last epoch no later one shows the state: losses to the last bit do.
    last_epoch = SCENARIO.partition("  - at: {epoch: 3")[0].replace("epoch: 2", "epoch: 4")
    file.write_text(last_epoch, encoding="utf-8")

    done = run(file)

    assert done.verdict.status == "pass", done.verdict.headline
    assert done.verdict.restarts.resumed == 1
