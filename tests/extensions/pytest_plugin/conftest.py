"""A project as a user has it, and one real session of pytest in it that many tests read."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[3]
# By its module and not by its entry point: that is there only where chaos is installed.
PLUGIN = ("-p", "no:chaos", "-p", "chaos.extensions.pytest_plugin", "-p", "no:randomly")
KILL = "faults:\n  - at: {epoch: 1, step: 2, rank: 0}\n    kill_worker: {}\n"
TINY = "job: {script: tiny.py, workers: 1, failure: {max_failures: 2}}\n"
GUILTY = (
    "job: {script: digits_optimizer_lost.py, args: {epochs: 3, batch-size: 128}, workers: 1}\n"
    + KILL
)
FILES = {
    "survives.chaos.yaml": f"scenario: a worker is killed\nmarks: [quick]\n{TINY}{KILL}",
    "never.chaos.yaml": f"scenario: never reached\n{TINY}{KILL}".replace("epoch: 1", "epoch: 9"),
    "forgets.chaos.yaml": f"scenario: momentum is lost\n{GUILTY}",
    "known.chaos.yaml": "scenario: momentum is lost, as is known\n"
    f"{GUILTY}expect: {{verdict: fail, check: state}}\n",
    "fails.chaos.yaml": "scenario: does not start\njob: {script: does_not_import.py, workers: 1}\n",
    "test_first.py": '''
import chaos
import pytest
from chaos import kill_worker

pytestmark = pytest.mark.chaos_job(script="tiny.py", workers=1, failure={"max_failures": 2})
KILL = kill_worker(rank=0, epoch=1, step=2)

@chaos.scenario(faults=[KILL])
def test_survives(result):
    """A worker is killed."""
    assert result.passed
    assert not result.failed
    assert not result.inconclusive
    assert result.as_expected
    assert result.attempts == 2
    assert result.lost_steps == 2
    assert 0 < result.recovery_s < 60
    assert len(result.losses[0]) == 12
    assert result.broken == ()
    assert result.anomalies == ()
    assert result.verdict.headline == result.headline
    assert result.report.is_file()
    assert result.plan.slug == "test_first-test_survives"
    assert len(result.history) > 12
    assert repr(result) == "<pass: 2 attempts, 2 steps lost>"

@chaos.scenario(faults=[KILL])
def test_asks_too_much(result, tmp_path):
    assert result.lost_steps <= 1

@chaos.scenario(faults=[KILL], expect={"lost_steps": {"max": 1}})
def test_is_not_called():
    print("it was called")

def test_runs_a_file(chaos_run, chaos_cluster):
    result = chaos_run("survives.chaos.yaml")
    assert result.passed
    assert type(chaos_cluster._backends["ray"]).__name__ == "ForkBackend"
    with pytest.raises(pytest.fail.Exception, match="lost-work"):
        chaos_run(faults=[KILL], expect={"lost_steps": {"max": 1}})
    result = chaos_run(faults=[KILL], expect={"lost_steps": {"max": 1}}, check=False)
    assert result.failed
    assert not result.as_expected
''',
}


@dataclass(frozen=True)
class Session:
    """What one session of pytest said, and what it left."""

    code: int
    out: str
    folder: Path

    def case(self, name: str) -> ET.Element:
        """Return one test's element in JUnit."""
        cases = ET.parse(self.folder / "junit.xml").getroot().iter("testcase")
        return next(c for c in cases if f"{c.get('classname')}::{c.get('name')}" == name)

    def properties(self, name: str) -> dict[str, str]:
        """Return what JUnit says of one test."""
        found = self.case(name).iter("property")
        return {str(one.get("name")): str(one.get("value")) for one in found}


def project(folder: Path, files: dict[str, str]) -> Path:
    """Make a folder with jobs and tests in it."""
    for job in (
        ROOT / "tests/ray/jobs/tiny.py",
        ROOT / "tests/ray/jobs/does_not_import.py",
        ROOT / "tests/ray/jobs/needs_an_extra.py",
        ROOT / "scenarios/jobs/digits_optimizer_lost.py",
    ):
        shutil.copy(job, folder)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = quick\n")
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def environment() -> dict[str, str]:
    """Return what pytest runs with: chaos on its path, and a terminal of 80 columns.

    Where pytest believes that it is in CI, it cuts nothing short in its summary.
    """
    ours = {name: value for name, value in os.environ.items() if name not in {"CI", "BUILD_NUMBER"}}
    return {**ours, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "NO_COLOR": "1"}


def session(folder: Path, *words: str) -> Session:
    """Run pytest in a process of its own, on the embedded backend."""
    command = [sys.executable, "-m", "pytest", *PLUGIN, "--chaos-backend=fork", *words]
    done = subprocess.run(
        [*command, "--junit-xml=junit.xml"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return Session(done.returncode, done.stdout + done.stderr, folder)


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Run everything that a project may hold, once."""
    folder = project(tmp_path_factory.mktemp("project"), FILES)
    yield session(folder)
    shutil.rmtree(folder)
