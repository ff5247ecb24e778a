"""The audit finds nothing in a correct job, and the cause in each of six broken copies of it.

CI injects faults at some places of one of them; the nightly run at more of all, since each fault
is a training of its own.
"""

import json
from pathlib import Path

import pytest

from tests.called import chaos
from tests.forked.audits import BROKEN, ROOT, audit

IN_CI = {"digits_optimizer_lost"}
pytestmark = pytest.mark.timeout(300)


def test_ci_has_copies_that_there_are() -> None:
    assert set(BROKEN) >= IN_CI


@pytest.mark.nightly
@pytest.mark.parametrize("runs", [17, 26])
def test_nothing_is_found_in_the_correct_job(runs: int, tmp_path: Path) -> None:
    # With larger batches, each of so many runs has half of the steps.
    ran, card = audit("digits_ddp", runs, tmp_path, "--batch-size", "64")

    assert ran.code == 0, ran.out + ran.err
    assert card["findings"] == []
    assert len(card["runs"]) == runs
    assert all(row["tried"] for row in card["covered"] if row["why_none"] is None)
    assert {run["status"] for run in card["runs"]} == {"pass"}


@pytest.mark.parametrize(
    ("script", "runs"),
    [pytest.param(s, 4, marks=() if s in IN_CI else pytest.mark.nightly) for s in BROKEN]
    + [pytest.param(s, 13, marks=pytest.mark.nightly) for s in BROKEN],
)
def test_a_broken_copy_is_found_by_what_it_loses(script: str, runs: int, tmp_path: Path) -> None:
    ran, card = audit(script, runs, tmp_path)

    assert ran.code == 1, ran.out + ran.err
    named, defects = BROKEN[script], [finding["defect"] for finding in card["findings"]]
    assert {defect["check"] for defect in defects} == {named.check}
    assert {defect["kind"] for defect in defects} == {named.kind}
    guilty = [run["parts"] for run in card["runs"] if run["status"] == "fail"]
    of_part = {parts[named.part] for parts in guilty if named.part is not None}
    assert of_part <= {"reset", "not restored", "different"}


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_what_is_rounded_at_every_resume_adds_up_where_places_share_a_run(tmp_path: Path) -> None:
    """One resume stays within the tolerance that was asked for; a dozen in a row do not."""
    script = ROOT / "tests/forked/jobs/cooled.py"
    words = ("--tolerance", "0.005", "--max-runs", "40", "--time-limit", "300s", "--no-confirm")
    together, alone = (
        json.loads(
            chaos(
                "audit",
                script,
                *options,
                "--format",
                "json",
                "--reports",
                tmp_path,
                folder=tmp_path,
            ).out
        )
        for options in (words, (*words, "--one-by-one"))
    )

    assert alone["verdict"]["word"] == "pass"
    assert together["verdict"]["word"] == "fail"
    assert {run["is_combined"] for run in together["runs"] if run["status"] == "fail"} == {True}
    assert {finding["defect"]["check"] for finding in together["findings"]} == {"trajectory"}
