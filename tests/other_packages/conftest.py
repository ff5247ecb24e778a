"""A package that extends chaos, as installed: a module and the metadata that names it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.documents.blocks import blocks

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs/examples"
JOB = Path(__file__).parent / "jobs/sometimes_saves.py"
BOTH = {
    "chaos.faults": {"kill_peers": "chaos_peers:KillPeers"},
    "chaos.checks": {"every-epoch-saved": "chaos_saves"},
}


def shown(begins: str) -> str:
    """Return the piece of YAML in the documents that begins so."""
    return next(block.text for block in blocks("yaml") if block.text.startswith(begins))


HEAD = "job: {script: train.py, workers: 2, failure: {max_failures: 1}}\n"
FAULTS = next(block.text for block in blocks("yaml") if "kill_peers: {signal: KILL}" in block.text)
SCENARIOS = {
    "alone": f"scenario: a rank is left alone\n{HEAD}{FAULTS}",
    "own": f"scenario: chaos's own fault\n{HEAD}{FAULTS}".replace(
        "kill_peers: {signal: KILL}", "kill_worker: {}"
    ),
    "nobody": shown("scenario: there is nobody"),
    "guilty": shown("scenario: every second epoch"),
    "named": shown("scenario: every second epoch").replace(
        "check: every", "finding: epoch-not-saved, check: every"
    ),
    "accepted": shown("scenario: every second epoch").replace(
        "{verdict: fail, check: every-epoch-saved}",
        "{accept_findings: [{finding: epoch-not-saved, reason: every second one is enough}]}",
    ),
}


def install(
    folder: Path,
    points: Mapping[str, Mapping[str, str]],
    *,
    package: str = "chaos-example",
    **modules: str,
) -> Path:
    """Write a package into a folder: its modules' text, and its entry points by their groups."""
    info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {package}\nVersion: 1.0\n")
    lines = [
        line
        for group, named in points.items()
        for line in (f"[{group}]", *(f"{name} = {place}" for name, place in named.items()), "")
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def install_examples(folder: Path) -> Path:
    """Install the worked examples of the documents."""
    texts = {file.stem: file.read_text() for file in EXAMPLES.glob("*.py")}
    return install(folder, BOTH, **texts)


@dataclass(frozen=True)
class Done:
    """A process that has ended: its exit code, and all that it said, with single spaces."""

    code: int
    said: str


def run(folder: Path, *words: str, packages: Path | None = None, root: Path = ROOT) -> Done:
    """Run a command in a folder, with chaos on its path and what is installed in `packages`."""
    paths = [str(root), *([] if packages is None else [str(packages)])]
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return Done(done.returncode, " ".join(f"{done.stdout} {done.stderr}".split()))


@dataclass(frozen=True)
class Suite:
    """A folder with scenarios that were run, and the packages beside it."""

    folder: Path
    packages: Path
    done: Done

    def run_of(self, scenario: str) -> Path:
        """Return the folder of a scenario's run."""
        (found,) = (self.folder / "reports" / scenario).iterdir()
        return found


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    """Run the scenarios of the worked examples once, on the embedded backend."""
    folder = tmp_path_factory.mktemp("project")
    packages = install_examples(tmp_path_factory.mktemp("site"))
    shutil.copy(JOB, folder / "train.py")
    for name, text in SCENARIOS.items():
        (folder / f"{name}.chaos.yaml").write_text(text)
    done = run(folder, "chaos", "run", ".", "--backend", "fork", packages=packages)
    yield Suite(folder, packages, done)
    shutil.rmtree(folder)
