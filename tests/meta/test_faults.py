"""A fault is one file: no other file of chaos knows it, and one more is found by itself."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.faults.base import Fault
from chaos.model.fault_entry import OWN_FAULTS
from chaos.plugins import find_fault_flaws

ROOT = Path(__file__).parents[2]
DIFF = ROOT / "docs/examples/add-a-fault.diff"
WRITES = "it composes a run, and chooses which faults are in it"
STORAGE = "it does the harm of storage faults, inside the job"
MAY_NAME = {
    "audit/finding.py": "the order in which an audit's own faults are preferred for a reproduction",
    "audit/site_groups.py": WRITES,
    "extensions/slurm/launcher.py": "the fault that ends an attempt so that another follows",
    "model/launcher_facts.py": "likewise, of any other launcher",
    "extensions/cluster/existing/world.py": "a method of the node's agent has a fault's name",
    "launch/raytrain/wrapped/filesystem.py": STORAGE,
    "faults/poison_step.py": "its strikes are those of two other faults",
    "plan/draw.py": "of a node that is taken at random from torchrun, another one comes",
    "plugins.py": "the order in which the known faults stand in plan.json",
    "extensions/preflight/calibration.py": WRITES,
    "extensions/preflight/compression.py": WRITES,
    "extensions/guard/log_incident.py": WRITES,
    "probe/job_objects.py": STORAGE,
    "probe/storage_faults.py": STORAGE,
    "extensions/lab/search/plans.py": WRITES,
    "extensions/lab/search/shrink.py": WRITES,
    "extensions/lab/selftest/runs.py": WRITES,
}
# Prose and names of methods are no knowledge of a fault: only whole strings and names count.


def words(file: Path) -> set[str]:
    """Return the names that a module uses, and its strings, each as a whole."""
    found = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        match node:
            case ast.Constant(value=str(word)):
                found.add(word)
            case ast.Attribute(attr=word) | ast.Name(id=word):
                found.add(word)
            case ast.alias(name=word) | ast.keyword(arg=str(word)):
                found.add(word)
            case _:
                pass
    return found


def test_a_fault_is_named_in_its_own_file_and_where_a_reason_is_given() -> None:
    names = [*OWN_FAULTS, *(fault.__name__ for fault in OWN_FAULTS.values())]
    files = {
        file: words(file)
        for file in (ROOT / "chaos").rglob("*.py")
        if any(name in text for text in [file.read_text(encoding="utf-8")] for name in names)
    }
    naming = {
        str(file.relative_to(ROOT / "chaos"))
        for file, used in files.items()
        for name, fault in OWN_FAULTS.items()
        if file.stem != name and used & {name, fault.__name__, f"chaos.faults.{name}"}
    }

    assert naming == set(MAY_NAME)


@pytest.mark.parametrize("name", OWN_FAULTS)
def test_our_own_faults_are_held_to_what_those_of_other_packages_are(name: str) -> None:
    fault: type[Fault] = OWN_FAULTS[name]

    assert not list(find_fault_flaws(fault, ("epoch", "step", "seconds")))
    assert "what it does to nodes of others" not in fault.on_shared_cluster.why
    assert (
        fault.sentence != Fault.sentence or fault.describe_injection is not Fault.describe_injection
    )


ASKS = """
from pathlib import Path
from chaos.model.fault_entry import FAULTS
from chaos.plan.draw import DRAWN
from chaos.plan.make import make_plan
from chaos.scenario_file.load import load_scenario
file = Path("scenarios/worker/stutter.chaos.yaml").absolute()
(op,) = make_plan(load_scenario(file), file=file, seed=0, cwd=Path.cwd()).ops
sentence = op.fault.describe_injection(1, "here")
print(op.fault, "stutter_worker" in FAULTS, DRAWN[-1][0], sentence, sep="; ")
"""


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_the_worked_example_adds_a_fault_in_three_new_files(tmp_path: Path) -> None:
    added = re.findall(r"^\+\+\+ b/(.*)$", DIFF.read_text(encoding="utf-8"), re.MULTILINE)
    for folder in ("chaos", "scenarios/jobs", "tests/faults"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "tests/world.py", tmp_path / "tests")
    shutil.copytree(ROOT / "docs/examples", tmp_path / "docs/examples")

    def called(*words: str) -> str:
        env = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    called("git", "apply", "docs/examples/add-a-fault.diff")
    said = called(sys.executable, "-c", ASKS)
    called(sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "tests/faults")

    assert [file.partition("/")[0] for file in added] == ["chaos", "scenarios", "tests"]
    assert "/dev/null" in DIFF.read_text(encoding="utf-8")
    assert said == (
        "stutter_worker (0.1 s); True; stutter_worker; rank 1 stood still for 0.1 s here"
    )
