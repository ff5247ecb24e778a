"""Without the extension the core runs its own clusters, and refuses others before it starts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NOWHERE = "127.0.0.1:1"
PLAIN = f"""
scenario: a worker is killed
job: {{script: {ROOT}/scenarios/jobs/digits_ddp.py, args: {{epochs: 2}}, workers: 2,
  failure: {{max_failures: 1}}}}
faults:
  - at: {{epoch: 1, step: 2, rank: 1}}
    kill_worker: {{}}
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with chaos in it, as it is installed without this extension."""
    folder = tmp_path_factory.mktemp("core")
    shutil.copytree(
        ROOT / "chaos", folder / "chaos", ignore=shutil.ignore_patterns("__pycache__", "cluster")
    )
    assert (folder / "chaos/extensions/slurm").is_dir()
    return folder


def run_chaos(
    core: Path, folder: Path, *options: str, cluster: str = "", command: str = "run"
) -> "subprocess.CompletedProcess[str]":
    """Run a scenario, with a `cluster` or without one, by the chaos in `core`."""
    scenario = folder / "x.chaos.yaml"
    scenario.write_text(f"{PLAIN}cluster: {{{cluster}}}\n" if cluster else PLAIN)
    target = scenario if command == "run" else ROOT / "scenarios/jobs/digits_ddp.py"
    return subprocess.run(
        [sys.executable, "-m", "chaos", command, str(target), *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(core), "COLUMNS": "300"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("options", "cluster", "feature"),
    [
        pytest.param(
            ("--address", NOWHERE, "--allow-faults-on", NOWHERE),
            "",
            "--address",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            ("--address", NOWHERE, "--dry-run"), "", "--dry-run", marks=pytest.mark.nightly
        ),
        pytest.param(
            ("--address", NOWHERE, "--reclaim-by", "local"),
            "",
            "--reclaim-by",
            marks=pytest.mark.nightly,
        ),
        ((), f"address: '{NOWHERE}'", "cluster.address"),
        pytest.param(
            ("--backend", "fork"), "metadata: aws", "cluster.metadata", marks=pytest.mark.nightly
        ),
    ],
)
def test_what_needs_the_extension_is_refused(
    options: tuple[str, ...], cluster: str, feature: str, core: Path, tmp_path: Path
) -> None:
    done = run_chaos(core, tmp_path, *options, cluster=cluster)

    assert done.returncode == 3, done.stdout + done.stderr
    assert feature in done.stderr + done.stdout
    assert "chaos's extension cluster" in done.stderr + done.stdout
    assert not list(tmp_path.rglob("plan.json"))


def test_an_audit_on_a_cluster_is_refused(core: Path, tmp_path: Path) -> None:
    done = run_chaos(core, tmp_path, "--address", NOWHERE, command="audit")

    assert done.returncode == 3, done.stdout + done.stderr
    assert "chaos's extension cluster" in done.stderr + done.stdout


@pytest.mark.nightly
@pytest.mark.timeout(180)
def test_a_scenario_on_forked_workers_runs(core: Path, tmp_path: Path) -> None:
    done = run_chaos(core, tmp_path, "--backend", "fork")

    assert done.returncode == 0, done.stdout + done.stderr
