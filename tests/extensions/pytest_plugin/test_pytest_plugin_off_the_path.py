"""Those who do not use chaos do not pay for it: nothing heavy is imported for them."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HEAVY = ("ray", "torch", "pydantic", "msgspec", "rich", "altair", "numpy", "chaos.harness")
OTHERS = ("-p", "no:hypothesispytest", "-p", "no:anyio", "-p", "no:randomly")  # which import some
TELL = """
import sys
def pytest_sessionfinish():
    print("loaded:", *sorted(sys.modules))
"""


def loaded(folder: Path, *words: str) -> set[str]:
    """Run pytest where chaos is installed, and give the modules that it has then."""
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    (folder / "installed-1.0.dist-info").mkdir()
    (folder / "installed-1.0.dist-info/METADATA").write_text("Name: installed\nVersion: 1.0\n")
    points = [f"{name} = {place}" for name, place in entry["pytest11"].items()]
    text = "\n".join(["[pytest11]", *points])
    (folder / "installed-1.0.dist-info/entry_points.txt").write_text(text)
    (folder / "conftest.py").write_text(TELL)
    (folder / "test_plain.py").write_text("def test_plain(): pass\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-s", *OTHERS, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return set(done.stdout.partition("loaded: ")[2].split())


def test_the_entry_point_loads_the_hooks_and_nothing_heavy(tmp_path: Path) -> None:
    modules = loaded(tmp_path)

    assert "chaos.extensions.pytest_plugin" in modules
    assert not modules.intersection(HEAVY)
    assert {name for name in modules if name.startswith("chaos.")} == {
        "chaos.callable_module",
        "chaos.declaration",
        "chaos.errors",
        "chaos.extensions",
        "chaos.installation",
        "chaos.extensions.pytest_plugin",
        "chaos.extensions.pytest_plugin.options",
        "chaos.extensions.pytest_plugin.suite",
        "chaos.run",
        "chaos.run.display_path",
        "chaos.settings",
    }


def test_what_is_collected_needs_no_ray_and_no_torch_before_it_runs(tmp_path: Path) -> None:
    (tmp_path / "job.py").touch()
    (tmp_path / "x.chaos.yaml").write_text("scenario: x\njob: {script: job.py, workers: 1}\n")
    (tmp_path / "test_first.py").write_text(
        "import chaos\n"
        "@chaos.scenario(script='job.py', workers=1, faults=[chaos.kill_node(epoch=1, step=1)])\n"
        "def test_x(result): pass\n"
    )

    modules = loaded(tmp_path, "--collect-only")

    assert "chaos.harness" in modules
    assert not modules.intersection({"ray", "torch"})


@pytest.mark.parametrize("module", ["pydantic", "pytest", "ray", "torch", "chaos.model"])
def test_a_script_that_declares_its_state_imports_nothing_else(module: str) -> None:
    code = f"import sys, chaos; chaos.declare('x', 1); sys.exit({module!r} in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
