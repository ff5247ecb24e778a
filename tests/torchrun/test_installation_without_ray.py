"""Ray is an extra: without it, all that torchrun's jobs need is there, and the rest says so."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
JOBS = Path(__file__).parent / "jobs"
# What comes with `ray[train]` and is no part of an installation without it. A process that has
# this file on its path, as every child of it has, fails at any import of them.
ABSENT = """
import sys
for name in ("ray", "pyarrow", "pandas", "tensorboardX"):
    sys.modules[name] = None
"""
CALLS = """
import json, sys
from chaos.cli.commands import main
told = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["chaos", *words]
    try:
        main()
    except SystemExit as ended:
        told.append(ended.code)
print(json.dumps([told, [name for name in sys.modules if name.startswith("ray.")]]))
"""
RAYS = "import ray.train\nray.train.report({})\n"
SCENARIO = """
scenario: one of {launcher}
job: {{launcher: {launcher}, script: {script}, workers: 2, failure: {{max_failures: 1}}}}
faults:
  - at: {{epoch: 1, step: 2, rank: 1}}
    kill_worker: {{}}
"""


DECORATED = """
import chaos
from chaos import kill_worker

@chaos.scenario(
    launcher="torchrun",
    script="ddp.py",
    workers=2,
    failure={"max_failures": 1},
    faults=[kill_worker(epoch=1, step=2, rank=1)],
)
def test_a_decorated_function_gets_the_result(result):
    assert result.attempts == 2
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """Make a folder with a script of each launcher, and a path that hides Ray."""
    (tmp_path / "absent").mkdir()
    (tmp_path / "absent/sitecustomize.py").write_text(ABSENT)
    shutil.copy(JOBS / "ddp.py", tmp_path)
    (tmp_path / "rays.py").write_text(RAYS)
    for launcher, script in (("torchrun", "ddp.py"), ("ray", "rays.py")):
        text = SCENARIO.format(launcher=launcher, script=script)
        (tmp_path / f"{launcher}.chaos.yaml").write_text(text)
    return tmp_path


def without_ray(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "PYTHONPATH": f"{folder / 'absent'}:{ROOT}",
            "COLUMNS": "200",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_ray_is_in_the_extra_and_not_among_the_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert "ray" not in {Requirement(line).name for line in project["dependencies"]}
    assert [Requirement(line).name for line in project["optional-dependencies"]["ray"]] == ["ray"]


@pytest.mark.embedded  # it imports torch, in a process of its own
def test_commands_import_no_ray_and_name_the_extra_where_they_need_it(desk: Path) -> None:
    calls: list[tuple[list[str], int]] = [
        (["--help"], 0),
        (["list", "faults"], 0),
        (["list", "faults/kill_worker"], 0),
        (["report", "--trend"], 0),
        (["audit", "ddp.py", "--backend", "ray"], 3),  # the launcher is found out
        (["audit", "rays.py"], 3),
        (["run", "ray.chaos.yaml"], 2),
        (["selftest", "--only", "N01"], 3),
    ]

    done = without_ray(desk, "-c", CALLS, json.dumps([words for words, _ in calls]))

    codes, of_ray = json.loads(done.stdout.splitlines()[-1])
    told = " ".join((done.stdout + done.stderr).split())
    assert codes == [code for _, code in calls], told
    assert of_ray == []
    assert "--backend ray needs Ray Train, and torchrun starts this script" in told
    assert "rays.py: the script is taken for a job of Ray Train's, and Ray is not installed" in told
    assert "the job rays.py needs Ray, which is not installed. pip install" in told
    assert "chaos selftest needs Ray, which is not installed. pip install" in told
    assert told.count("[ray]'") == 3
    assert "ModuleNotFoundError" not in told


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["ray", "fork"])
def test_a_suite_runs_what_torchrun_starts_and_skips_what_needs_ray(
    desk: Path, backend: str
) -> None:
    done = without_ray(desk, "-m", "chaos", "run", ".", "--backend", backend)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "✓ 1 as expected   - 1 skipped" in done.stdout


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_the_pytest_plugin_does_as_well(desk: Path) -> None:
    (desk / "test_own.py").write_text(DECORATED)
    done = without_ray(desk, "-m", "pytest", "-q", "-p", "no:randomly", "-rs", ".")

    assert "2 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert "[ray]'" in done.stdout
