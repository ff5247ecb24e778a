"""The audit finds nothing in a correct job, and the cause in each of five broken copies of it."""

from pathlib import Path

import pytest

from tests.fork.audits import BROKEN, audit

pytestmark = pytest.mark.timeout(300)


def test_nothing_is_found_in_the_correct_job(tmp_path: Path) -> None:
    ran, card = audit("digits_ddp", 26, tmp_path)

    assert ran.code == 0, ran.output
    assert card["findings"] == []
    assert len(card["runs"]) == 26
    assert {run["validity"] for run in card["runs"]} == {"valid"}


@pytest.mark.parametrize("script", BROKEN)
def test_a_broken_copy_is_found_by_what_it_loses(script: str, tmp_path: Path) -> None:
    ran, card = audit(script, 13, tmp_path)

    assert ran.code == 1, ran.output
    assert {finding["defect"]["check"] for finding in card["findings"]} == {BROKEN[script]}
