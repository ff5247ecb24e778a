"""What Ray charges where more than one thing happened: retry-budget."""

from typing import Any

import pytest

from chaos.model import event as ev
from chaos.model.bounds import Charges
from tests.check.story import Story, Strike
from tests.check.tamper import changed, result_on, told, without

KILLED = Story((Strike(2, 3, 1),))


@pytest.mark.parametrize(
    ("other", "decision", "status"),
    [
        ("kill_node", "RETRY", "pass"),
        ("kill_node", "RAISE", "fail"),
        ("kill_worker", "RETRY", "fail"),
    ],
)
def test_a_start_may_time_out_where_one_of_the_strikes_took_a_node(
    other: Any, decision: str, status: str
) -> None:
    story = Story((Strike(2, 3, 1), Strike(2, 3, 0, kind=other)))
    history = KILLED.history()
    invoked = [
        event for _, event in changed(history, ev.FaultInvoked, op=1).select_events(ev.FaultInvoked)
    ]
    ended = [
        event for _, event in changed(history, ev.FaultEnded, op=1).select_events(ev.FaultEnded)
    ]
    waited = ev.FailureDecided(
        attempt=0,
        decision=decision,  # type: ignore[arg-type]
        charged="controller",
        error="WorkerGroupStartupTimeoutError",
        errors={},
    )

    assert (
        result_on("retry-budget", story, told(history, *invoked, *ended, waited)).status == status
    )


def test_a_second_charge_is_found_after_a_failure_of_rays_controller() -> None:
    (charge,) = [event for _, event in KILLED.history().select_events(ev.FailureDecided)]
    controllers = ev.FailureDecided(
        attempt=0, decision="RETRY", charged="controller", error="E", errors={}
    )

    found = result_on("retry-budget", KILLED, told(KILLED.history(), controllers, charge))

    assert any("a second time" in anomaly.message for anomaly in found.anomalies)


def test_a_charge_that_is_expected_may_yet_come_where_the_end_was_not_seen() -> None:
    history = without(KILLED.history(), ev.RunEnded)

    result = result_on("retry-budget", KILLED, history, charges=Charges(failures=2))
    assert result.status == "inconclusive"
    assert "None" not in result.summary
    assert result_on("retry-budget", KILLED, charges=Charges(failures=2)).status == "fail"
