"""A job that depends on the training: released when all is done, and not before."""

import pytest

from chaos.check.epochs import EPOCHS
from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from chaos.model.verdict import CheckResult
from tests.check.story import Story, Strike
from tests.check.tamper import result_on, rows, told
from tests.findings import expect_finding

KILLED = Story((Strike(2, 3, 1),))
BEGAN = ev.DependentSeen(script="evaluate.sbatch", dependency_kind="afterok", began=True)


def judged(history: History) -> CheckResult:
    return result_on(EPOCHS, KILLED, history)


def after_commit(epoch: int) -> History:
    """Return the history of a job whose dependent began once an epoch was committed."""
    history = KILLED.history()
    at = max(rows(history, ev.Committed, lambda e: e.epoch == epoch)) + 1
    seen = JournalEntry(time_ns=history[at - 1].time_ns, source="harness-2", seq=0, event=BEGAN)
    entries = list(history)
    return History([*entries[:at], seen, *entries[at:]])


def test_a_dependent_that_begins_when_the_job_has_ended_is_right() -> None:
    assert judged(told(KILLED.history(), BEGAN)).status == "pass"


def test_a_dependent_that_never_begins_is_no_finding() -> None:
    held = ev.DependentSeen(
        script="evaluate.sbatch",
        dependency_kind="afterok",
        began=False,
        reason="DependencyNeverSatisfied",
    )

    assert judged(told(KILLED.history(), held)).status == "pass"


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_a_dependent_that_begins_half_way_is_named_with_what_was_trained(epoch: int) -> None:
    result = judged(after_commit(epoch))

    assert result.status == "fail"
    expect_finding(
        result,
        "dependent-began-early",
        script="evaluate.sbatch",
        dependency="afterok",
        epochs=epoch + 1,
        baseline_epochs=4,
    )


def test_one_that_begins_at_the_last_commit_is_right() -> None:
    assert judged(after_commit(3)).status == "pass"
