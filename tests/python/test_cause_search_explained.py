"""A cause that no check names: its proof by giving values back, and the lines of the job."""

import json
from pathlib import Path
from typing import Any

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


@pytest.mark.nightly
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


# -- what lies deep, has moved, is copied, or stands beside a generator ----------------------------

FRAME = """\
import os
import torch
from collections import defaultdict
from torch.utils.data import DataLoader, Dataset, TensorDataset

{parts}

def main():
    torch.manual_seed(3)
    net, begun = {net}, 0
    adam = torch.optim.Adam(net.parameters(), lr=0.05)
    saved = torch.load("saved.pt") if os.path.exists("saved.pt") else {{}}
    if saved:
        net.load_state_dict(saved["net"])
        adam.load_state_dict(saved["adam"])
        begun = saved["epoch"] + 1
{made}
    for epoch in range(begun, 5):
{head}
        for {each}:
            loss = {loss}
            adam.zero_grad()
            loss.backward()
            adam.step()
{step}
{tail}
        state = {{"net": net.state_dict(), "adam": adam.state_dict(), "epoch": epoch{more}}}
        torch.save(state, "new.pt")
        os.replace("new.pt", "saved.pt")

main()
"""
USUAL = {
    "parts": "DATA = torch.randn(24, 4, generator=torch.Generator().manual_seed(1))",
    "net": "torch.nn.Linear(4, 1)",
    "made": "",
    "head": "        pass",
    "each": "x in DATA.split(8)",
    "loss": "(net(x) - x.sum(1, keepdim=True)).square().mean()",
    "step": "",
    "tail": "",
    "more": "",
}
# It serves as much as its budget allows, so that the counter that began anew is right again before
# the model is called, and more lies in the queue.
QUEUE = {
    "parts": """\
class Budget:
    def __init__(self):
        self.round, self.served = 0, 0

class Service:
    def __init__(self):
        self.budget = Budget()

class Pool:
    def __init__(self):
        self.service, self.waiting, self.asked = Service(), [], 0

    def fill(self, net):
        budget = self.service.budget
        while budget.served < 8 * (budget.round + 2):
            x = torch.randn(4, generator=torch.Generator().manual_seed(self.asked))
            with torch.no_grad():
                self.waiting.append((x, net(x[None])[0]))
            self.asked, budget.served = self.asked + 1, budget.served + 1

    def take(self):
        now, self.waiting = self.waiting[:8], self.waiting[8:]
        return [torch.stack(part) for part in zip(*now)]

    def take_filled(self, net):
        self.fill(net)
        return self.take()
""",
    "made": """\
    pool = Pool()
    pool.asked, pool.waiting = saved.get("pool", (0, []))
    pool.service.budget.round = 3 * begun""",
    "each": "_ in range(3)",
    "loss": "sum((net(x) - 0.1 * old - x.sum(1, keepdim=True)).square().mean() "
    "for x, old in [pool.take_filled(net)])",
    "step": "            pool.service.budget.round += 1",
    "more": ', "pool": (pool.asked, pool.waiting)',
}
# Each epoch the loader draws a seed from torch's generator, and each step a number: nothing comes
# of either.
CALLBACK = {
    "parts": USUAL["parts"]
    + """

class Ease:
    def __init__(self):
        self.margin = 0.0

    def epoch_ends(self):
        self.margin += 0.1
""",
    "made": "    loader = DataLoader(TensorDataset(DATA), batch_size=8)\n    callbacks = [Ease()]",
    "each": "(x,) in loader",
    "loss": "(net(x) - x.sum(1, keepdim=True) - callbacks[0].margin).square().mean()",
    "tail": "        callbacks[0].epoch_ends()",
}
DRAWING = {
    **CALLBACK,
    "step": "            torch.rand(1)",
    "loss": f"{CALLBACK['loss']} + 0 * torch.rand(1)",
}
WORDS = {
    "made": "    names = defaultdict(lambda: len(names))",
    "each": "at in torch.randperm(24, generator=torch.Generator().manual_seed(epoch)).split(8)",
    "loss": "sum((net(x) - x.sum(1, keepdim=True)).square().mean() "
    "for x in [DATA[[names[int(i)] for i in at]]])",
}
COPIES = {
    "parts": """\
class Noisy(Dataset):
    def __init__(self):
        self.x, self.epoch = torch.arange(96.0).reshape(24, 4) / 96, 0

    def __len__(self):
        return 24

    def __getitem__(self, at):
        dice = torch.Generator().manual_seed(100 * self.epoch + at)
        return self.x[at] + 0.1 * torch.randn(4, generator=dice)
""",
    "made": """\
    data = Noisy()
    loader = DataLoader(data, batch_size=8, num_workers=1, persistent_workers=True)""",
    "head": "        data.epoch = epoch",
    "each": "x in loader",
}
SCHEDULE = {
    "parts": USUAL["parts"] + "\nfrom torch.nn import Dropout, Linear, Sequential",
    "net": "Sequential(Linear(4, 8), Dropout(0.5), Linear(8, 1))",
    "made": "    steps = torch.optim.lr_scheduler.StepLR(adam, 1, 0.8)",
    "tail": "        steps.step()",
}


def audited_job(job: dict[str, str], folder: Path, *words: str) -> dict[str, Any]:
    """Return the card of an audit of a job that differs from the usual one in these lines."""
    (folder / "train.py").write_text(FRAME.format(**{**USUAL, **job}), encoding="utf-8")
    own = ("--launcher", "python", "--max-runs", "3", "--format", "json", "--reports", "reports")
    done = chaos("audit", "train.py", *own, *words, folder=folder)
    assert done.out, done.err
    card: dict[str, Any] = json.loads(done.out)
    return card


def later(job: dict[str, str], name: str) -> Any:
    """Return a job of a class that another one stands for in CI."""
    return pytest.param(job, name, marks=pytest.mark.nightly)


@pytest.mark.parametrize(
    ("job", "name"),
    [
        later(QUEUE, "`pool.service.budget.served` set to "),
        later(CALLBACK, "`callbacks[0].margin` set to "),
        later(DRAWING, "`callbacks[0].margin` set to "),
        later(WORDS, "`names` at the resume"),
        later(COPIES, "`data.epoch` in the loader's processes set to 0"),
    ],
    ids=["queue", "callback", "drawing", "words", "copies"],
)
def test_the_object_at_fault_is_named(job: dict[str, str], name: str, tmp_path: Path) -> None:
    card = audited_job(job, tmp_path)

    (finding,) = card["findings"]
    assert f"With {name}" in finding["proof"]
    assert card["verdict"]["severity"] == "wrong result"


@pytest.mark.nightly
def test_what_is_drawn_does_not_excuse_a_number_that_is_lost(tmp_path: Path) -> None:
    card = audited_job(DRAWING, tmp_path, "--accept", "rng")

    assert card["verdict"]["word"] == "fail"
    (finding,) = card["findings"]
    assert "`callbacks[0].margin` set to " in finding["proof"]


@pytest.mark.nightly
def test_a_part_that_is_lost_without_a_consequence_is_a_note(tmp_path: Path) -> None:
    card = audited_job(SCHEDULE, tmp_path)

    (finding,) = card["findings"]
    assert finding["cause"] == ["rng.torch"]
    assert card["verdict"]["severity"] == "not reproducible"
    texts = [note["text"] for note in card["notes"]]
    assert any(text.startswith("`schedule` did not come back at 3 places") for text in texts)


# What each item has cost so far is kept in a file of its own, and moves with every step.
TABLE = """\
import json
import os
import torch

def read():
    if not os.path.exists("costs.json"):
        return [1.0] * 4
    with open("costs.json") as file:
        return json.load(file)

def main():
    torch.manual_seed(4)
    net, begun, costs = torch.nn.Linear(3, 1), 0, read()
    sgd = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    if os.path.exists("saved.pt"):
        saved = torch.load("saved.pt")
        net.load_state_dict(saved["net"])
        sgd.load_state_dict(saved["sgd"])
        begun = saved["step"]
    for step in range(begun, 20):
        costs, item = read(), step % 4
        x = torch.randn(6, 3, generator=torch.Generator().manual_seed(step)) * costs[item]
        loss = (net(x) - x[:, :1]).square().mean()
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        costs[item] = 0.5 * costs[item] + loss.item()
        with open("costs.json", "w") as file:
            json.dump(costs, file)
        if step % 4 == 3:
            state = {"net": net.state_dict(), "sgd": sgd.state_dict(), "step": step + 1}
            torch.save(state, "new.pt")
            os.replace("new.pt", "saved.pt")

main()
"""


@pytest.mark.nightly
def test_a_file_that_is_ahead_of_the_checkpoint_is_shown_to_be_the_cause(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TABLE, encoding="utf-8")
    words = ("--launcher", "python", "--max-runs", "3", "--format", "json", "--no-confirm")

    done = chaos("audit", "train.py", *words, folder=tmp_path)

    assert done.code == 1, done.err
    (finding, *_) = json.loads(done.out)["findings"]
    assert finding["proof"] == (
        "With `costs.json` put back as in a clean run at the place of the resume, training is the "
        "baseline's to the last bit: it was ahead of what the job resumed from."
    )
