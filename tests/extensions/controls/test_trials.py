"""Losses planted in real runs: what is found, what has no consequence, and that nothing remains."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from chaos.audit.card import Card, Controls, PlantedLoss
from chaos.audit.causes import Trials
from chaos.audit.folder import AuditFolder
from chaos.extensions.controls.trials import plant_losses
from chaos.launch.backends import open_launcher
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from tests.called import chaos

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.embedded, pytest.mark.timeout(600)]

# `level` scales each input, and `shown` is set anew in each epoch and read by nobody.
JOB = """\
import os
import torch

class Teacher:
    def __init__(self):
        self.level = 1
        self.shown = -1

def main():
    torch.manual_seed(3)
    net, teacher, begun = torch.nn.Linear(4, 1), Teacher(), 0
    adam = torch.optim.Adam(net.parameters(), lr=0.05)
    decay = torch.optim.lr_scheduler.ExponentialLR(adam, 0.9)
    if os.path.exists("saved.pt"):
        saved = torch.load("saved.pt")
        net.load_state_dict(saved["net"])
        adam.load_state_dict(saved["adam"])
        decay.load_state_dict(saved["decay"])
        teacher.level = saved["level"]
        torch.set_rng_state(saved["dice"])
        begun = saved["epoch"] + 1
    for epoch in range(begun, 5):
        teacher.shown = epoch
        for step in range(3):
            x = torch.randn(8, 4) * teacher.level
            loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
        decay.step()
        teacher.level += 1
        saved = {"net": net.state_dict(), "adam": adam.state_dict(), "decay": decay.state_dict(),
                 "level": teacher.level, "dice": torch.get_rng_state(), "epoch": epoch}
        torch.save(saved, "new.pt")
        os.replace("new.pt", "saved.pt")

main()
"""


class SilentAnnouncer:
    """It receives the lines of a launcher, and shows none."""

    def say(self, text: str) -> None:
        """Show nothing."""

    def warn(self, text: str) -> None:
        """Show nothing."""


def load_card(audit: Path) -> Card:
    return Card.from_json((audit / "audit.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Audit the job in few runs, and return the folder of the audit."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "train.py").write_text(JOB, encoding="utf-8")
    words = ("--launcher", "python", "--one-by-one", "--places", "mid-epoch", "--max-runs", "4")
    done = chaos("audit", "train.py", *words, "--reports", "reports", folder=folder)
    assert done.code == 2, done.err  # right, and of these places alone
    (audit_folder,) = (folder / "reports/audits").iterdir()
    return audit_folder


@pytest.fixture(scope="module")
def controls(audit: Path) -> Controls:
    card = load_card(audit)
    folder, baseline = AuditFolder(audit, {}), RunDirectory(audit).load_baseline()
    assert baseline is not None
    with open_launcher("python", SilentAnnouncer()) as backend:
        arguments = backend, SystemClock(), folder, baseline, card.runs
        return plant_losses(Trials(*arguments, end_ns=math.inf, minimum_runs=0))


def test_each_part_whose_loss_matters_is_found_and_named(controls: Controls) -> None:
    losses = {loss.part: loss for loss in controls.losses}

    for part in ("model", "optimizer", "rng.torch", "optimizer.lr"):
        assert (losses[part].result, losses[part].is_named) == ("found", True), losses[part]
    assert losses["teacher.level"].result == "found"


def test_a_value_that_nothing_reads_is_said_to_be_without_consequence(controls: Controls) -> None:
    (loss,) = [loss for loss in controls.losses if loss.part == "teacher.shown"]

    assert loss.result == "no consequence"


def test_variables_of_loops_and_batches_are_not_lost(controls: Controls) -> None:
    assert not {"epoch", "step", "x", "loss", "saved"} & {loss.part for loss in controls.losses}


def test_nothing_remains_of_the_runs(audit: Path, controls: Controls) -> None:
    assert controls.losses
    assert not (audit / "controls").exists()
    assert not (audit.parents[2] / "saved.pt").exists()


def test_without_a_right_run_nothing_is_planted(audit: Path) -> None:
    folder, baseline = AuditFolder(audit, {}), RunDirectory(audit).load_baseline()
    assert baseline is not None
    with open_launcher("python", SilentAnnouncer()) as backend:
        trials = Trials(backend, SystemClock(), folder, baseline, (), math.inf, 0)

        assert plant_losses(trials).reason


@pytest.mark.nightly
def test_an_audit_answers_the_same_with_planted_losses_and_without(tmp_path: Path) -> None:
    script = ROOT / "scenarios/jobs/digits_ddp.py"
    cards: list[dict[str, Any]] = []
    files: list[list[str]] = []
    for options in ((), ("--controls",)):
        folder = tmp_path / str(len(cards))
        folder.mkdir()
        words = ("--time-limit", "10m", "--format", "json", "--reports", "reports", *options)
        done = chaos("audit", script, *words, "--", "--epochs", "4", folder=folder)
        cards.append(json.loads(done.out))
        files.append(sorted(path.name for path in folder.iterdir()))
    plain, controlled = cards
    losses = [PlantedLoss(**loss) for loss in controlled["controls"]["losses"]]

    assert plain["verdict"]["word"] == controlled["verdict"]["word"] == "pass"
    assert plain["controls"] is None
    assert files[0] == files[1]
    found = {loss.part for loss in losses if loss.result == "found" and loss.is_named}
    assert {"model", "optimizer", "rng.torch", "optimizer.lr"} <= found
