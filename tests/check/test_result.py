"""A check of a restart says of what it cannot judge that there was none."""

import pytest

from tests.accepted import expect_text
from tests.check.story import Story, Strike
from tests.check.tamper import result_on

KILLED = Story((Strike(2, 3, 1),))


@pytest.mark.parametrize("check", ["resume-point", "cursor"])
def test_where_nothing_was_planned_no_restart_is_due(check: str) -> None:
    expect_text(result_on(check, Story()).summary)


@pytest.mark.parametrize("check", ["resume-point", "cursor"])
def test_without_a_restart_that_was_due_nothing_can_be_told(check: str) -> None:
    history = Story().history()

    assert result_on(check, KILLED, history).status == "inconclusive"
    assert "no restart was seen" in result_on(check, KILLED, history).summary
