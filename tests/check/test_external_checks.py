"""Another package's check among chaos's own: what it says counts, what it cannot say is told."""

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.check.external_checks import ExternalChecks
from chaos.check.judge import CHECKS
from chaos.check.result import conclude
from chaos.faults.base import Fault
from chaos.model.event import FaultEnded, WorkerGroupStarted
from chaos.model.history import History
from chaos.model.plan import Plan
from chaos.model.verdict import Anomaly, CheckResult, Verdict
from chaos.plugins import AbsentFault
from chaos.registry import RegisteredExtension
from tests.accepted import expect_text
from tests.check.each import judge_each
from tests.check.shorthand import told_in
from tests.check.story import Story, Strike
from tests.check.tamper import shifted, told
from tests.findings import expect_finding

STORY = Story(strikes=(Strike(epoch=1, step=2),))


def other(says: Any) -> ExternalChecks:
    """Return one check of another package; `says`: its result, or what it raises."""

    def check(_: RunAnalysis) -> CheckResult:
        if isinstance(says, Exception):
            raise says
        result: CheckResult = says
        return result

    module = SimpleNamespace(NAME="other", check=check)
    return ExternalChecks((RegisteredExtension("other", "chaos-other 2.1", "other", module),))


def judged(others: ExternalChecks) -> Verdict:
    return judge_each(STORY.plan(), STORY.history(), STORY.baseline(), others)


def found(verdict: Verdict) -> CheckResult:
    return next(result for result in verdict.results if result.check == "other")


def test_it_is_asked_after_chaos_own_but_for_the_one_that_almost_every_defect_breaks() -> None:
    verdict = judged(other(conclude("other", evidence=1, summary="all is well")))

    names = [result.check for result in verdict.results]
    assert names == [*(check.NAME for check in CHECKS[:-1]), "other", "trajectory"]
    assert verdict.status == "pass"
    assert found(verdict).package == "chaos-other 2.1"


def test_what_it_finds_makes_the_verdict() -> None:
    broken = conclude("other", anomalies=[Anomaly(message="it is blue")], evidence=1, summary="")

    verdict = judged(other(broken))

    assert verdict.status == "fail"
    assert verdict.headline.endswith("it is blue.")


def test_what_it_cannot_tell_is_never_green() -> None:
    assert judged(other(conclude("other", evidence=0, summary=""))).status == "inconclusive"


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (ValueError("no such column"), "the check itself failed: ValueError: no such column"),
        (None, "TypeError: it gave no CheckResult of its own, but None"),
        (conclude("another", evidence=1, summary=""), "it gave no CheckResult of its own"),
        (
            CheckResult(check="other", status="fail", summary="", evidence=1),
            "ValueError: fail with 0 anomalies",
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

    assert verdict.status == "inconclusive"
    assert why in found(verdict).summary


def test_a_check_that_judged_before_and_is_not_installed_is_unknown_until_it_is() -> None:
    here = other(conclude("other", evidence=1, summary="all is well"))
    first = judged(here)
    without = judged(ExternalChecks().add_missing(first))
    still = judged(ExternalChecks().add_missing(without))

    assert without.status == still.status == "inconclusive"
    expect_text(found(without).summary)
    assert judged(here.add_missing(still)) == first


def absent(plan: Plan) -> Plan:
    """Return the plan with its only fault as it is read where its package is not installed."""
    (op,) = plan.ops
    gone = AbsentFault(kind="kill_peers", settings={"rank": 1}, package="chaos-example 1.0")
    changed = {"kill_worker": None, "absent": gone, "package": gone.package}
    return plan.model_copy(update={"ops": (op.model_copy(update=changed),)})


def test_a_fault_that_is_not_known_here_leaves_all_open_even_what_would_be_broken() -> None:
    plan = absent(STORY.plan())

    right = judge_each(plan, STORY.history(), STORY.baseline())
    wrong = judge_each(plan, shifted(STORY.history(), 1), STORY.baseline())

    assert right.status == wrong.status == "inconclusive"
    assert "kill_peers (of chaos-example" in right.headline
    expect_text(wrong.results[-1].summary)


class Leaves(Fault):
    """A fault of another package that leaves the attempt alive."""

    family = "worker"
    ends_attempt = "perhaps"
    rank: ClassVar[None] = None


class Ends(Fault):
    """One that ends it, and may kill any worker of the group."""

    family = "worker"
    ends_attempt = "always"
    takes_others: ClassVar[bool] = True
    rank: ClassVar[None] = None


def planned(fault: Fault) -> Plan:
    """Return the plan in which the fault does what the story's own does."""
    (op,) = STORY.plan().ops
    return STORY.plan().model_copy(
        update={"ops": (op.model_copy(update={"kill_worker": fault}),)}  # under a name it knows
    )


def test_a_fault_is_believed_whether_it_ends_its_attempt() -> None:
    spared = told(told_in("g s s r c s i s r c ."), FaultEnded(op=0, status="ok", detail="seen"))
    clean = told_in("g s s r c s s r c .")

    lives = judge_each(planned(Leaves()), spared, clean)
    died = judge_each(planned(Ends()), spared, clean)

    assert lives.status == "pass", lives.headline
    assert "ended no attempt" in str(lives.results)
    assert died.status == "fail"
    expect_finding(died, "too-few-attempts", attempt=0)


def test_of_a_fault_that_ends_its_attempt_any_rank_may_have_died_in_mid_sentence() -> None:
    peer = next(
        place.pid
        for _, started in STORY.history().select_events(WorkerGroupStarted)
        for place in started.workers
        if started.attempt == 0 and place.rank not in {op.at.rank for op in STORY.plan().ops}
    )
    history = History(STORY.history().entries, torn=(f"worker-{peer}",))

    ends = judge_each(planned(Ends()), history, STORY.baseline())
    leaves = judge_each(planned(Leaves()), history, STORY.baseline())

    watched = [next(r for r in v.results if r.check == "watched") for v in (ends, leaves)]
    assert [result.status for result in watched] == ["pass", "inconclusive"]
    assert f"journal worker-{peer} is cut short" in watched[1].summary
