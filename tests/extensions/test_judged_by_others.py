"""Another package's check among chaos's own: what it says counts, what it cannot say is told."""

from types import SimpleNamespace
from typing import Any

import pytest

from chaos.check.judge import CHECKS, judge
from chaos.check.others import Others
from chaos.check.result import conclude
from chaos.check.trial import Trial
from chaos.model.absent import AbsentFault
from chaos.model.plan import Plan
from chaos.model.verdict import Anomaly, CheckResult, Verdict
from chaos.registered import Registered
from tests.check.story import Story, Strike
from tests.check.tamper import shifted

STORY = Story(strikes=(Strike(epoch=1, step=2),))


def other(says: Any) -> Others:
    """Give one check of another package; `says`: its result, or what it raises."""

    def check(_: Trial) -> CheckResult:
        if isinstance(says, Exception):
            raise says
        result: CheckResult = says
        return result

    module = SimpleNamespace(NAME="other", check=check)
    return Others((Registered("other", "chaos-other 2.1", "other", module),))


def judged(others: Others) -> Verdict:
    return judge(STORY.plan(), STORY.history(), STORY.baseline(), others)


def found(verdict: Verdict) -> CheckResult:
    return next(result for result in verdict.results if result.check == "other")


def test_it_is_asked_after_chaos_own_but_for_the_one_that_almost_every_defect_breaks() -> None:
    verdict = judged(other(conclude("other", evidence=1, summary="all is well")))

    names = [result.check for result in verdict.results]
    assert names == [*(check.NAME for check in CHECKS[:-1]), "other", "trajectory"]
    assert verdict.validity == "valid"
    assert found(verdict).package == "chaos-other 2.1"


def test_what_it_finds_makes_the_verdict() -> None:
    broken = conclude("other", anomalies=[Anomaly(message="it is blue")], evidence=1, summary="")

    verdict = judged(other(broken))

    assert verdict.validity == "invalid"
    assert verdict.headline.endswith("it is blue.")


def test_what_it_cannot_tell_is_never_green() -> None:
    assert judged(other(conclude("other", evidence=0, summary=""))).validity == "unknown"


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (ValueError("no such column"), "the check itself failed: ValueError: no such column"),
        (None, "TypeError: it gave no CheckResult of its own, but None"),
        (conclude("another", evidence=1, summary=""), "it gave no CheckResult of its own"),
        (
            CheckResult(check="other", validity="invalid", summary="", evidence=1),
            "ValueError: invalid with 0 anomalies",
        ),
        (
            conclude(
                "other", anomalies=[Anomaly(message="m", events=(10**6,))], evidence=1, summary=""
            ),
            "an anomaly names an event that the history has not",
        ),
    ],
)
def test_a_result_that_no_report_could_show_is_a_check_that_failed(says: Any, why: str) -> None:
    verdict = judged(other(says))

    assert verdict.validity == "unknown"
    assert why in found(verdict).summary


def test_a_check_that_judged_before_and_is_not_installed_is_unknown_until_it_is() -> None:
    here = other(conclude("other", evidence=1, summary="all is well"))
    first = judged(here)
    without = judged(Others().after(first))
    still = judged(Others().after(without))

    assert without.validity == still.validity == "unknown"
    assert found(without).summary == (
        "other is of the package chaos-other 2.1, which is not installed here"
    )
    assert judged(here.after(still)) == first


def absent(plan: Plan) -> Plan:
    """Give the plan with its only fault as it is read where its package is not installed."""
    (op,) = plan.ops
    gone = AbsentFault(kind="kill_peers", settings={"rank": 1}, package="chaos-example 1.0")
    changed = {"kill_worker": None, "absent": gone, "package": gone.package}
    return plan.model_copy(update={"ops": (op.model_copy(update=changed),)})


def test_a_fault_that_is_not_known_here_leaves_all_open_even_what_would_be_broken() -> None:
    plan = absent(STORY.plan())

    right = judge(plan, STORY.history(), STORY.baseline())
    wrong = judge(plan, shifted(STORY.history(), 1), STORY.baseline())

    assert right.validity == wrong.validity == "unknown"
    assert "kill_peers (of chaos-example 1.0, not installed here)" in right.headline
    assert "what was done to the job is not known here" in wrong.results[-1].summary
