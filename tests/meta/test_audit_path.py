"""The way of an audit, as `docs/life-of-an-audit.md` has it: so many files to open, and no more."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# May only fall, and is to come to 65: merge what only hands on, and take it off the page.
FILES_MAX = 87
_LISTED = re.compile(r"^(\d+)\. `([\w/]+\.py)`", re.MULTILINE)

# It loses its momentum at a restart, so that the first run with a fault is kept with its logs.
JOB = """
import os, sys, tempfile
import ray.train, torch
from ray.train.torch import TorchTrainer

def tell_modules():
    # The root was started by its name, and is in `sys.modules` by another one.
    names = (*sys.modules, *sys.orig_argv)
    print("MODULES", *(name for name in names if name.startswith("chaos.")), flush=True)

def train():
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    first_epoch = 0
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"))
        model.load_state_dict(state["model"])
        first_epoch = state["epoch"] + 1
    for epoch in range(first_epoch, 3):
        for step in range(2):
            loss = model(torch.ones(4, 2) * (epoch + step)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            state = {"model": model.state_dict(), "epoch": epoch}
            torch.save(state, os.path.join(folder, "state.pt"))
            checkpoint = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"loss": loss.item()}, checkpoint=checkpoint)
    tell_modules()

TorchTrainer(
    train,
    scaling_config=ray.train.ScalingConfig(num_workers=1),
    run_config=ray.train.RunConfig(failure_config=ray.train.FailureConfig(max_failures=3)),
).fit()
tell_modules()
"""
HARNESS = """
import atexit, sys
from pathlib import Path

atexit.register(lambda: Path("harness.txt").write_text("\\n".join(sys.modules)))
from chaos.cli import main
main()
"""


def listed_files() -> list[str]:
    page = (ROOT / "docs/life-of-an-audit.md").read_text(encoding="utf-8")
    numbers, files = zip(*_LISTED.findall(page), strict=True)
    assert [*map(int, numbers)] == [*range(1, len(files) + 1)]
    return [*files]


def test_each_file_on_the_way_of_an_audit_is_there_once() -> None:
    files = listed_files()

    assert [file for file in files if not (ROOT / "chaos" / file).is_file()] == []
    assert len({*files}) == len(files)


def test_the_way_of_an_audit_does_not_grow() -> None:
    assert len(listed_files()) <= FILES_MAX


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_audit_of_a_small_job_imports_each_file_of_its_way(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "harness.py").write_text(HARNESS)
    words = ["audit", "job.py", "--max-runs", "1", "--no-confirm", "--reports", "reports"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}

    subprocess.run([sys.executable, "harness.py", *words], cwd=tmp_path, env=env, check=False)

    logs = [*tmp_path.glob("reports/audits/*/runs/0/logs/driver.log")]
    texts = [(tmp_path / "harness.txt").read_text(), *(log.read_text() for log in logs)]
    imported = {word for text in texts for word in text.split()}
    missing = []
    for file in listed_files():
        module = f"chaos/{file}".removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        missing += [] if module in imported else [file]
    assert missing == []
