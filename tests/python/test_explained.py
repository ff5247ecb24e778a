"""A cause that no check names: its proof by giving values back, and the lines of the job."""

import json
from pathlib import Path

import pytest

from tests.called import chaos

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(600)]

# The level is read as a step's data is drawn, before the model is called: to give it back then
# would be too late.
JOB = """\
import os
import torch

class Teacher:
    def __init__(self):
        self.level = 1

    def lesson(self, epoch, step):
        dice = torch.Generator().manual_seed(100 * epoch + step)
        return torch.randn(8, 4, generator=dice) * self.level

def main():
    torch.manual_seed(3)
    net, teacher, begun = torch.nn.Linear(4, 1), Teacher(), 0
    adam = torch.optim.Adam(net.parameters(), lr=0.05)
    if os.path.exists("saved.pt"):
        saved = torch.load("saved.pt")
        net.load_state_dict(saved["net"])
        adam.load_state_dict(saved["adam"])
        begun = saved["epoch"] + 1
    for epoch in range(begun, 5):
        for step in range(3):
            x = teacher.lesson(epoch, step)
            loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
        teacher.level += 1
        torch.save({"net": net.state_dict(), "adam": adam.state_dict(), "epoch": epoch}, "new.pt")
        os.replace("new.pt", "saved.pt")

main()
"""


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object], str]:
    """Audit the job once; return its folder, its first finding, and the run that shows it."""
    folder = tmp_path_factory.mktemp("explained")
    (folder / "train.py").write_text(JOB, encoding="utf-8")
    words = ("--launcher", "python", "--max-runs", "4", "--format", "json", "--reports", "reports")
    done = chaos("audit", "train.py", *words, folder=folder)
    assert done.code == 1, done.err
    card = json.loads(done.out)
    (finding, *_) = card["findings"]
    (audit,) = (folder / "reports/audits").iterdir()
    return folder, finding, str(audit / f"runs/{finding['smallest']['number']}")


def test_a_value_that_acts_as_data_is_drawn_is_shown_to_be_the_cause(
    audited: tuple[Path, dict[str, object], str],
) -> None:
    _, finding, _ = audited

    assert "`teacher.level` set to " in str(finding["proof"])
    assert "training is the baseline's to the last bit" in str(finding["proof"])
    lines = finding["lines"]
    assert isinstance(lines, list)
    shown = {line["role"]: line["around"][line["line"] - line["first"]].strip() for line in lines}
    assert shown["made"].startswith("net, teacher, begun = ")
    assert shown["saved"].startswith("torch.save(")
    assert shown["read"] == 'saved = torch.load("saved.pt")'


def test_a_run_of_another_backend_is_explained_by_its_like_on_the_embedded_one(
    audited: tuple[Path, dict[str, object], str],
) -> None:
    folder, _, run = audited
    file = Path(run, "plan.json")
    plan = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**plan, "backend": "python"}), encoding="utf-8")

    done = chaos("explain", run, "--yes", "--reports", "reports", folder=folder)

    assert done.code == 0, done.err
    assert "`teacher.level` given back: training is the baseline's" in done.out
    assert "made   `teacher.level`, train.py:14: net, teacher, begun = " in done.out
