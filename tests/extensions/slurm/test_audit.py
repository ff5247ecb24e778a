"""`chaos audit` of a script for sbatch under a real Slurm: right ones pass, wrong ones fail."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from chaos.audit.card import Card
from chaos.run.held_folders import TMP
from tests.called import chaos as called
from tests.extensions.slurm.conftest import ROOT

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(1200)]
Audited = Callable[..., Card]
DAEMONS = {"munged", "slurmctld", "slurmd", "slurmstepd"}


@pytest.fixture
def audited(slurm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Audited:
    """Return a function that audits a script of `scenarios/jobs/slurm`."""
    del slurm
    here = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{here}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SPIRALS", "scenarios/jobs/spirals_torchrun.py")
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")

    def of(script: str, *words: str) -> Card:
        done = called("audit", f"scenarios/jobs/slurm/{script}", *words, folder=tmp_path)
        [file] = (tmp_path / "reports/audits").glob("*/audit.json")
        card = Card.from_json(file.read_bytes())
        assert done.code == card.exit_code, done.err
        assert not [
            path for path in tmp_path.iterdir() if path.name not in {"scenarios", "reports"}
        ]
        return card

    return of


def checks_of(card: Card) -> set[str]:
    return {finding.defect.check for finding in card.findings}


def test_a_script_that_resumes_passes_and_leaves_nothing(audited: Audited) -> None:
    before = {p.pid for p in psutil.process_iter() if p.name() in DAEMONS}

    card = audited("spirals.sbatch")

    assert card.word == "pass", card.reasons
    assert card.job.workers == 2
    assert {"preempted at once", "node lost", "mid-epoch", "inside a save"} <= {
        run.group for run in card.runs if run.has_all_faults
    }
    assert {p.pid for p in psutil.process_iter() if p.name() in DAEMONS} <= before
    assert not [*TMP.glob("chaos-slurm-*")]


@pytest.mark.parametrize(
    ("script", "words", "check"),
    [
        ("spirals.sbatch", ("--places", "at once", "--", "--forget", "optimizer"), "state"),
        ("spirals.sbatch", ("--places", "notice", "--grace", "3s"), "attempts"),
        ("spirals_no_requeue.sbatch", ("--places", "at once"), "attempts"),
        ("spirals_hides_failure.sbatch", ("--places", "notice", "--grace", "3s"), "epochs"),
    ],
)
def test_a_script_that_does_not_come_back_rightly_fails(
    audited: Audited, script: str, words: tuple[str, ...], check: str
) -> None:
    card = audited(script, "--max-runs", "1", "--no-explain", *words)

    assert checks_of(card) == {check}


def test_a_script_that_saves_in_its_grace_and_requeues_itself_is_not_blamed(
    audited: Audited,
) -> None:
    job = ("--", "--save-on-term", "--step-seconds", "0.1")

    card = audited("spirals_comes_back.sbatch", "--places", "notice", "--grace", "5s", *job)

    assert not card.findings
    assert {run.lost_steps for run in card.runs if run.is_right} == {0}


def test_the_number_of_ranks_is_seen(audited: Audited) -> None:
    alone = audited("spirals_alone.sbatch", "--places", "at once", "--max-runs", "1")

    assert alone.job.workers == 1
    assert not alone.findings
