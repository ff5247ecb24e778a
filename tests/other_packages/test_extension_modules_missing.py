"""The core without one of its extensions: a copy of the tree in which the folder is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTENSIONS = (
    "bundle", "catalogue", "cluster", "controls", "doctor", "explain", "guard", "init", "lab",
    "preflight", "pytest_plugin", "slurm",
)  # fmt: skip
#: The core's own tests; those left out read the whole tree, or are about more than the core.
CORE_TESTS = (
    "app", "audit", "check", "cli", "faults", "launch", "plan", "probe", "python_first", "report",
    "run", "scenario", "shelf",
)  # fmt: skip
QUICK = "not (ray or nightly or embedded or slow)"
COMMANDS = {
    "catalogue": ["list"],
    "doctor": ["doctor"],
    "explain": ["explain", "rejudge", "replay"],
    "guard": ["guard"],
    "init": ["init"],
    "lab": ["search", "compare", "selftest"],
    "preflight": ["preflight", "from-trace"],
}
LEFT_OUT = {
    "bundle": [(["report", "reports", "--bundle", "a.zip"], "--bundle needs chaos's extension")],
    "cluster": [(["run", "--dry-run", "scenarios/smoke"], "--dry-run needs chaos's extension")],
    "controls": [(["audit", "train.py", "--controls"], "--controls needs chaos's extension")],
    "lab": [
        (["run", "--soak", "1m", "scenarios/smoke"], "--soak needs chaos's extension lab"),
        (["report", "--trend"], "--trend needs chaos's extension lab"),
    ],
}


IN_CI = {"cluster", "lab"}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if name in IN_CI else pytest.mark.nightly)
        for name in EXTENSIONS
    ],
)
def core(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the tree without an extension, which its name ends with."""
    extension = str(request.param)
    tree = tmp_path_factory.mktemp("tree") / extension
    listed = subprocess.run(
        ["git", "ls-files"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if not name.startswith(f"chaos/extensions/{extension}/") and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    return tree


def call(tree: Path, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Return what a command of Python said, with the copied tree in place of this one."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder or tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(120)
def test_help_lists_what_is_left_and_options_of_the_rest_are_refused(core: Path) -> None:
    said = call(core, "-m", "chaos", "--help").stdout

    missing = COMMANDS.get(core.name, [])
    for commands in COMMANDS.values():
        for command in commands:
            assert (f"\n  {command} " in said) == (command not in missing), said
    for words, problem in LEFT_OUT.get(core.name, []):
        refused = call(core, "-m", "chaos", *words)
        assert (refused.returncode, problem in " ".join(refused.stderr.split())) == (3, True)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_script_is_audited(core: Path, tmp_path: Path) -> None:
    script = shutil.copy(core / "scenarios/jobs/digits_optimizer_lost.py", tmp_path)

    words = ["audit", str(script), "--no-confirm", "--max-runs", "2", "--", "--epochs", "4"]
    done = call(core, "-m", "chaos", *words, folder=tmp_path)

    assert done.returncode == 1, done.stdout + done.stderr
    assert "optimizer" in done.stdout


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_tests_of_the_core_pass(core: Path) -> None:
    folders = [f"tests/{name}" for name in CORE_TESTS]

    without_plugin = ("-p", "no:chaos") if core.name == "pytest_plugin" else ()

    done = call(core, "-m", "pytest", *without_plugin, "-q", "-n", "2", "-m", QUICK, *folders)

    assert done.returncode == 0, done.stdout[-4000:]
