"""A run's time limit: the written one, or one that follows from the run without faults."""

import pytest

from chaos.model.history import Baseline
from chaos.model.plan import Plan
from chaos.model.scenario import Limits
from chaos.plan.extent import find_run_limit_s
from tests.check.shorthand import plan_of, told_in

QUICK = "g s s r c s s r c ."
SLOW = "g s s +100 r c s s r c ."
TWO_FAULTS = "g s s r c s x g<c0 s x g<c0 s s r c ."


def limit_of(plan: Plan, baseline: str) -> float:
    return find_run_limit_s(plan, Baseline([told_in(baseline)]))


def unset(**limits: float) -> Plan:
    return plan_of(TWO_FAULTS).model_copy(update={"limits": Limits(**limits)})


def test_a_job_that_takes_long_may_take_long_with_faults() -> None:
    assert limit_of(unset(), SLOW) == pytest.approx(500, abs=10)
    assert limit_of(unset(gate_s=5), SLOW) == limit_of(unset(), SLOW)


def test_a_quick_job_has_the_default_and_a_written_limit_holds() -> None:
    assert limit_of(unset(), QUICK) == Limits().run_s
    assert limit_of(unset(run_s=50), SLOW) == 50
    assert limit_of(unset(run_s=240), SLOW) == 240
