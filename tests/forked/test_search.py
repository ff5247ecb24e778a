"""A search finds what one fault alone does not show, and runs it first the next time."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.called import chaos
from tests.forked.audits import ROOT

CORPUS = ROOT / "tests/corpus/jobs"
# What each loses, and the faults that it takes to show it; see tests/corpus/corpus.yaml.
NEED_TWO = {
    "skipped_batches": "cursor",
    "harbor_waves": "resume-point",
    "quarry_dust": "state",
    "pollen_counts": "state",
    "orchid_petals": "state",
}
TWICE = """\
scenario: two restarts
job: {{script: {script}, workers: 1, failure: {{max_failures: 2}}}}
faults:
  - at: {{epoch: 1, step: 1, rank: 0}}
    kill_worker: {{}}
  - at: {{epoch: 2, step: 1, rank: 0}}
    kill_worker: {{}}
expect: {{verdict: fail, check: state}}
"""
pytestmark = pytest.mark.timeout(900)


def searched(script: Path, *words: str, folder: Path) -> tuple[int, dict[str, Any]]:
    done = chaos("search", script, "--format", "json", *words, folder=folder)
    assert done.code in {0, 1}, done.err
    return done.code, json.loads(done.out)


@pytest.mark.nightly
def test_what_an_earlier_search_has_found_is_run_first(tmp_path: Path) -> None:
    script = shutil.copy(CORPUS / "wrong/pollen_counts.py", tmp_path)
    kept = tmp_path / "reports/searches/pollen_counts-found"
    kept.mkdir(parents=True)
    (kept / "state.chaos.yaml").write_text(TWICE.format(script=script), encoding="utf-8")

    code, result = searched(Path(script), "--max-runs", "1", folder=tmp_path)

    (found,) = result["found"]
    assert (code, result["plans"]) == (1, 1)
    assert (found["was_known"], found["is_repeated"]) == (True, True)
    assert "optimizer.lr" in found["cause"]["parts"]


def test_a_misspelt_fault_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    script = CORPUS / "wrong/pollen_counts.py"
    done = chaos("search", script, "--fault", "kill_wroker", folder=tmp_path)

    assert done.code == 3
    assert "Did you mean kill_worker?" in " ".join(done.err.split())
    assert not [*tmp_path.iterdir()]


@pytest.mark.nightly
@pytest.mark.parametrize("name", NEED_TWO)
def test_a_defect_that_needs_two_faults_is_found_with_two(name: str, tmp_path: Path) -> None:
    script = CORPUS / f"wrong/{name}.py"

    _, result = searched(script, "--workers", "1", "--max-runs", "60", folder=tmp_path)

    (found,) = [one for one in result["found"] if one["cause"]["check"] == NEED_TWO[name]]
    assert len(found["row"]["ops"]) == 2
    assert found["is_smallest"]
    assert found["is_repeated"]


@pytest.mark.nightly
def test_nothing_is_found_in_a_right_job(tmp_path: Path) -> None:
    words = ("--max-runs", "60", "--reports", str(tmp_path), "--", "--epochs", "4")
    code, result = searched(ROOT / "scenarios/jobs/digits_ddp.py", *words, folder=ROOT)

    assert (code, result["found"]) == (0, [])
    assert result["resumed"] > 0
