"""A reader's folder: what the README tells him to write, and what one run left."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.called import PLAIN, Done, chaos
from tests.documents.blocks import ROOT, block_of

TRACE = (
    "0,add,a\n0,add,b\n0,add,c\n60000,remove,b\n120000,add,d\n180000,remove,a\n180000,remove,c\n"
)
FORK = ("--backend", "fork")


@dataclass(frozen=True)
class Desk:
    """The folder that a reader works in."""

    folder: Path

    def call(self, program: str, *words: str) -> Done:
        """Return what a command says; only pytest has a process of its own."""
        if program == "chaos":
            return chaos(*words, folder=self.folder)
        return self.start(program, *words)

    def start(self, program: str, *words: str) -> Done:
        """Start a command as a user does, as if chaos were installed."""
        done = subprocess.run(
            [sys.executable, "-m", program, *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **PLAIN},
            capture_output=True,
            text=True,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def filled_in(self, word: str) -> str:
        """Return a word with the run, or the suite, that stands for a placeholder."""
        places = {
            "reports/<scenario>/<seed>-<start>": "reports/my/*",
            "reports/suites/<start>": "reports/suites/*",
            "reports/suites/<later>": "reports/suites/*",
        }
        if word not in places:
            return word
        return str(min(self.folder.glob(places[word])).relative_to(self.folder))


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Write what the README says, and run its scenario once on the embedded backend."""
    folder = tmp_path_factory.mktemp("desk")
    shutil.copytree(ROOT / "scenarios", folder / "scenarios")
    shutil.copytree(ROOT / "docs/examples", folder / "docs/examples")
    shutil.copy(ROOT / "scenarios/jobs/digits_ddp.py", folder / "train.py")
    shutil.copy(ROOT / "scenarios/jobs/spirals_alone.py", folder / "train_alone.py")
    (folder / "my.chaos.yaml").write_text(block_of("README.md", "yaml", "scenario:"))
    (folder / "big.preflight.yaml").write_text(
        block_of("preflight.md", "yaml", "preflight: a model on 64")
    )
    (folder / "test_train.py").write_text(block_of("pytest.md", "python", "import chaos"))
    (folder / "p3.csv").write_text(TRACE)
    made = Desk(folder)
    done = made.call("chaos", "run", "my.chaos.yaml", *FORK)
    assert done.code == 0, done.out + done.err
    yield made
    shutil.rmtree(folder)
