"""A run at its limit that was no quieter than at its starts is slow, and not shown to hang."""

import pytest

from chaos.model.verdict import CheckResult
from tests.accepted import expect_text
from tests.check.test_judge_golden import result

SLOW_START = "g +60 s s r c s s r c ."
QUICK = "g s s r c s s r c ."


def found(run: str, baseline: str = SLOW_START) -> CheckResult:
    return result("terminates", baseline, run)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param("g +70 s s r c s x g<c0 +36 H", id="while it starts again"),
        pytest.param("g +70 s s r c s x +36 H", id="before it is started again"),
        pytest.param("g s s r c s x g<c0 +55 s +40 H", id="after a restart that took as long"),
        pytest.param("g s s r c s x g<c0 s +20 H", id="a moment ago"),
        pytest.param("g s s r c s y +100 H", id="before it is decided upon"),
    ],
)
def test_a_run_that_is_slow_is_not_blamed(run: str) -> None:
    slow = found(run)

    assert slow.status == "inconclusive"
    expect_text(slow.summary)


@pytest.mark.parametrize(
    ("run", "baseline"),
    [
        pytest.param("g s s r c s x g<c0 s +36 H", QUICK, id="starts take no time"),
        pytest.param("g s s r c s x g<c0 s +90 H", SLOW_START, id="quieter than any start"),
        pytest.param("g s s r c s y g<c0 s +25 H", QUICK, id="no start was slow"),
        pytest.param(
            "g +60 s s r c s s r c s s r c s +9 H", SLOW_START, id="it trains beyond its end"
        ),
    ],
)
def test_a_run_that_hangs_or_never_ends_is_blamed(run: str, baseline: str) -> None:
    assert found(run, baseline).status == "fail"


def test_restarts_of_its_own_are_not_slowness() -> None:
    own = found("g +60 s s r c s x g<c0 s g<c0 s g<c0 s +20 H")
    assert own.status == "fail"
