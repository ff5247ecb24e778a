"""Launchers by entry points: the worked example, an unusable one, and one that is deleted."""

import json
import shutil
from pathlib import Path

import pytest

from tests.other_packages.conftest import EXAMPLES, ROOT, install, run

POINTS = {"chaos.launchers": {"shell_loop": "shell_loop.launcher:LAUNCHER"}}
SCENARIO = """\
scenario: a rank is killed, and the loop starts the script again
job:
  launcher: shell_loop
  script: spirals_alone.py
  args: {resume: true}
  workers: 1
  failure: {max_failures: 1}
faults:
  - at: {epoch: 1, step: 2, rank: 0}
    kill_worker: {}
expect: {attempts: 2}
"""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Install the worked example of the documents."""
    site = tmp_path / "site"
    shutil.copytree(EXAMPLES / "shell_loop", site / "shell_loop")
    return install(site, POINTS, package="chaos-shell-loop")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with a scenario of the loop's."""
    folder = tmp_path / "project"
    folder.mkdir()
    for script in (ROOT / "scenarios/jobs").glob("spirals*.py"):
        shutil.copy(script, folder)
    (folder / "killed.chaos.yaml").write_text(SCENARIO)
    return folder


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_job_is_started_again_by_the_launcher_of_another_package(
    project: Path, packages: Path
) -> None:
    done = run(project, "chaos", "run", "killed.chaos.yaml", packages=packages)

    (folder,) = (project / "reports/killed").iterdir()
    verdict = json.loads((folder / "verdict.json").read_bytes())
    assert done.code == 0, done.said
    assert verdict["status"] == "pass", done.said
    assert "RETRY, charged to failures" in done.said


@pytest.mark.timeout(120)
def test_its_name_is_known_wherever_launchers_are_named(project: Path, packages: Path) -> None:
    schema = run(project, "chaos", "schema", packages=packages)
    (project / "killed.chaos.yaml").write_text(SCENARIO.replace("shell_loop", "shel_loop"))
    misspelt = run(project, "chaos", "run", "killed.chaos.yaml", packages=packages)

    assert '"slurm", "shell_loop" ]' in schema.said
    assert "Did you mean shell_loop?" in misspelt.said


@pytest.mark.timeout(120)
def test_a_launcher_that_is_none_is_refused(project: Path, tmp_path: Path) -> None:
    points = {"chaos.launchers": {"shell_loop": "no_launcher:NAME"}}
    packages = install(tmp_path / "broken", points, no_launcher="NAME = 1")

    done = run(project, "chaos", "run", "killed.chaos.yaml", packages=packages)

    assert done.code != 0
    assert "a launcher is an instance of" in done.said


@pytest.mark.timeout(120)
def test_without_its_folder_slurm_is_no_launcher_and_all_else_works(
    project: Path, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "chaos", tmp_path / "copy/chaos")
    shutil.rmtree(tmp_path / "copy/chaos/extensions/slurm")
    (project / "killed.chaos.yaml").write_text(SCENARIO.replace("shell_loop", "slurm"))

    refused = run(tmp_path / "copy", "chaos", "run", str(project), root=tmp_path / "copy")
    faults = run(tmp_path / "copy", "chaos", "list", "faults", root=tmp_path / "copy")

    assert "python, got 'slurm'" in refused.said
    assert faults.code == 0
    assert "kill_worker" in faults.said
    assert "requeue_job" not in faults.said
