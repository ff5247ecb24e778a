"""A launcher is a row and a folder: an example adds a row, and nothing else asks for its name."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.launch.local_run import LocalRun
from chaos.model.launcher import LAUNCHER_FACTS

ROOT = Path(__file__).parents[2]
DIFF = ROOT / "docs/examples/add-a-launcher.diff"
PAGE = ROOT / "docs/writing-a-launcher.md"
# `launcher == "ray"`, `if launcher in (…)`, `match job.launcher:`
ASKS = re.compile(r"launcher (==|!=|in|not in|is) \{?[\"'(]|match \S*launcher:")
MAY_ASK = ("chaos/model/launcher.py", "chaos/launch/")

ASKED = """
from pathlib import Path
from chaos.errors import UsageError
from chaos.harness import load_scenario_plan
from chaos.model.launcher import LAUNCHER_FACTS
file = Path("scenarios/mpirun/killed.chaos.yaml")
plan = load_scenario_plan(file, cwd=Path.cwd(), seed=0, backend="ray")
print(plan.backend, plan.shape.nodes, plan.job.launcher_facts.words.call, sep="; ")
for key in ("cluster: {nodes: 2}", "watch: {files: false}"):
    bad = file.with_name("bad.chaos.yaml")
    bad.write_text(file.read_text() + key + "\\n")
    try:
        load_scenario_plan(bad, cwd=Path.cwd(), seed=0, backend="ray")
    except UsageError as error:
        print(str(error).partition(": ")[2])
"""


def test_nothing_but_its_row_and_its_folder_asks_which_launcher_a_job_has() -> None:
    asking = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in sorted(ROOT.joinpath("chaos").rglob("*.py"))
        if not str(file.relative_to(ROOT)).startswith(MAY_ASK)
        for line in file.read_text(encoding="utf-8").splitlines()
        if ASKS.search(line)
    ]

    assert asking == []


def test_the_page_names_every_file_of_the_worked_example_and_every_method_to_fill_in() -> None:
    page = PAGE.read_text(encoding="utf-8")
    added = re.findall(r"^\+\+\+ b/(.*)$", DIFF.read_text(encoding="utf-8"), re.MULTILINE)

    assert [file for file in added if f"`{file}`" not in page] == []
    assert [name for name in LocalRun.__abstractmethods__ if f"`{name}`" not in page] == []


@pytest.mark.timeout(300)
def test_the_worked_example_adds_a_launcher_that_scenarios_can_name(tmp_path: Path) -> None:
    for folder in ("chaos", "scenarios/jobs", "tests/plan"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def called(*words: str) -> str:
        done = subprocess.run(
            words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    called("git", "apply", str(DIFF))
    said = called(sys.executable, "-c", ASKED)
    words = ("-m", "pytest", "-q", "-p", "no:randomly", "tests/plan/test_launcher.py")
    golden = called(sys.executable, *words)

    assert said.splitlines() == [
        "mpirun; 1; mpirun",
        "of cluster, mpirun has nothing: leave the rest out",
        "with job.launcher mpirun a resume shows in files: leave watch.files",
    ]
    assert re.search(rf"[^0-9]{2 * len(LAUNCHER_FACTS) + 3} passed", golden)
