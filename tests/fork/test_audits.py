"""The audit finds nothing in a correct job, and the cause in each of six broken copies of it.

CI injects faults at some places of one of them; the nightly run at more of all, since each fault
is a training of its own.
"""

from pathlib import Path

import pytest

from tests.fork.audits import BROKEN, audit

IN_CI = {"digits_rng_lost"}
pytestmark = pytest.mark.timeout(300)


def test_ci_has_copies_that_there_are() -> None:
    assert set(BROKEN) >= IN_CI


@pytest.mark.parametrize("runs", [16, pytest.param(26, marks=pytest.mark.nightly)])
def test_nothing_is_found_in_the_correct_job(runs: int, tmp_path: Path) -> None:
    ran, card = audit("digits_ddp", runs, tmp_path)

    assert ran.code == 0, ran.out + ran.err
    assert card["findings"] == []
    assert len(card["runs"]) == runs
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
    assert all(named.words in defect["gist"] for defect in defects)
    guilty = [run["parts"] for run in card["runs"] if run["status"] == "fail"]
    assert {parts[named.part] for parts in guilty} <= {"reset", "not restored", "different"}
