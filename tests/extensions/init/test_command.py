"""`chaos init` writes what `chaos run` can read, and writes over nothing."""

import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.cli import commands as cli
from chaos.installation import REPOSITORY, TAG
from chaos.plan.make import make_plan
from chaos.scenario_file.load import load_scenario
from tests.accepted import expect_text

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my train.py").write_text("import ray.train\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def code_of(monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    monkeypatch.setattr(sys, "argv", ["chaos", "init", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_a_first_scenario_loads_and_makes_a_plan(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [
        "my train.py",
        "--workers",
        "3",
        "--",
        "--epochs",
        "4",
        "--lr=0.1",
        "--fast",
        "--to",
        "x",
    ]

    assert code_of(monkeypatch, *words) == 0
    file = folder / "scenarios" / "my_train_worker_killed.chaos.yaml"
    scenario = load_scenario(file)
    plan = make_plan(scenario, file=file, seed=0, cwd=folder)

    assert scenario.job.args == {"epochs": 4, "lr": 0.1, "fast": True, "to": "x"}
    assert scenario.job.workers == 3
    assert plan.job.script == str(folder / "my train.py")
    assert [str(op.at) for op in plan.ops] == ["epoch 1, step 1, rank 2"]


ALONE = "import torch\noptimizer = torch.optim.SGD([torch.zeros(1)])\n"
SPAWNS = "import torch\ntorch.multiprocessing.spawn(print, nprocs=2)\n"


@pytest.mark.parametrize(("text", "workers", "rank"), [(ALONE, 1, 0), (SPAWNS, 2, 1)])
def test_a_script_that_trains_alone_has_one_worker(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, workers: int, rank: int
) -> None:
    (folder / "alone.py").write_text(text)

    assert code_of(monkeypatch, "alone.py", "--no-workflow") == 0

    file = folder / "scenarios" / "alone_worker_killed.chaos.yaml"
    scenario = load_scenario(file)
    plan = make_plan(scenario, file=file, seed=0, cwd=folder)
    assert (scenario.job.launcher, scenario.job.workers) == ("python", workers)
    assert [str(op.at) for op in plan.ops] == [f"epoch 1, step 1, rank {rank}"]


def test_the_workflow_is_the_one_of_the_documents(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "train.py").write_text("import ray.train\n")
    assert code_of(monkeypatch, "train.py") == 0

    written = (folder / ".github" / "workflows" / "chaos.yml").read_text()
    assert written == (ROOT / "docs" / "ci" / "github.yml").read_text()


def test_the_workflow_audits_the_script_with_its_arguments(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert code_of(monkeypatch, "my train.py", "--in", "own", "--", "--name", "a b") == 0

    written = (folder / ".github" / "workflows" / "chaos.yml").read_text()
    assert "chaos audit 'my train.py' --time-limit" in written
    assert "--output reports/audit.xml -- --name 'a b'\n" in written
    assert "chaos run own --output" in written


def test_a_module_is_named_as_one_in_scenario_and_workflow(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "pkg/jobs").mkdir(parents=True)
    (folder / "pkg/jobs/train.py").write_text("import ray.train\n")

    assert code_of(monkeypatch, "-m", "pkg.jobs.train", "--", "--epochs", "2") == 0

    file = folder / "scenarios" / "pkg_jobs_train_worker_killed.chaos.yaml"
    scenario = load_scenario(file)
    assert (scenario.job.module, scenario.job.script) == ("pkg.jobs.train", None)
    expect_text(scenario.scenario)
    written = (folder / ".github" / "workflows" / "chaos.yml").read_text()
    assert "chaos audit -m pkg.jobs.train --time-limit" in written


def test_a_module_that_is_nowhere_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(monkeypatch, "-m", "my train.py") == 3
    expect_text(capsys.readouterr().err)
    assert not (folder / "scenarios").exists()


def test_nothing_is_written_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workflow = folder / ".github" / "workflows" / "chaos.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text("mine")

    assert code_of(monkeypatch, "my train.py") == 3
    expect_text(capsys.readouterr().err)
    assert workflow.read_text() == "mine"
    assert not (folder / "scenarios").exists()
    assert code_of(monkeypatch, "my train.py", "--no-workflow") == 0


def test_a_script_that_is_not_there_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert code_of(monkeypatch, "nope.py") == 3
    assert not (folder / "scenarios").exists()


def test_a_script_that_torchrun_starts_gets_its_launcher_and_no_ray(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "ddp.py").write_text("import torch.distributed as d\nd.init_process_group()\n")

    assert code_of(monkeypatch, "ddp.py", "--", "--lr=0.1", "--epochs", "4") == 0
    job = load_scenario(folder / "scenarios" / "ddp_worker_killed.chaos.yaml").job
    workflow = (folder / ".github" / "workflows" / "chaos.yml").read_text()
    told = " ".join(capsys.readouterr().out.split())

    assert (job.launcher, job.args) == ("torchrun", ("--lr=0.1", "--epochs", "4"))
    assert f"pip install 'ray-train-chaos @ git+{REPOSITORY}@{TAG}'\n" in workflow
    assert "[ray]" not in workflow
    expect_text(told)
