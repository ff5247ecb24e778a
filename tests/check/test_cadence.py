"""Two optimizers in one loop, the second of which steps after some batches alone."""

from collections import Counter

import pytest

from chaos.check.cadence import find_cadence_changes
from chaos.check.judge import judge
from chaos.check.prose.epochs import describe_cadence_change
from chaos.model import event as ev
from chaos.model.history import History
from chaos.resume.steps import Step
from tests.accepted import expect_text
from tests.check.story import Story, Strike
from tests.check.tamper import changed, result_on

KILLED = Story((Strike(2, 3, 1),))
SECOND = "1 (SGD)"


def loop(line: str, *, first: int = 0, main: str = "") -> list[Step]:
    """Return steps: of the first optimizer `b`, with the inputs of a batch, of the second `s`."""
    made: list[Step] = []
    for number, letter in enumerate(line):
        inputs = ev.Inputs(count=4, digest=f"{first:016}") if letter == "b" else None
        first += letter == "b"
        optimizer = main if letter == "b" else SECOND
        at = {"attempt": 1, "rank": 0, "epoch": 0, "step": number + 1}
        done = ev.StepDone(**at, losses=(), inputs=inputs, optimizer=optimizer)
        made.append(Step(number, done))
    return made


def told(run: str, *, baseline: str, first: int = 3, main: str = "") -> list[str]:
    """Tell a resume after three batches, and the step of the second optimizer after them."""
    whole = loop(f"bbbs{baseline}")
    optimizers = Counter(step.done.optimizer for step in whole)
    made = loop(run, first=first, main=main)
    changes = find_cadence_changes(made, whole[4:], optimizers, whole[:4])
    return [describe_cadence_change(change) for change in changes]


def test_an_optimizer_that_steps_after_other_batches_is_named_with_them() -> None:
    (change,) = told("bbbbsbbbbsb", baseline="bbbsbbbsbbb")
    expect_text(change)


@pytest.mark.parametrize(
    ("run", "first", "main"),
    [
        ("bbbsbbbs", 3, ""),  # as in the baseline, as far as it came
        ("bbsbbbsbbb", 4, ""),  # a batch was skipped, and the second goes by the batches of data
        ("bbbbsbb", 3, "2 (Adam)"),  # an optimizer that the baseline does not have
    ],
)
def test_nothing_is_said_of_another_cadence_where_that_is_not_known(
    run: str, first: int, main: str
) -> None:
    assert told(run, baseline="bbbsbbbsbbb", first=first, main=main) == []


def second(history: History, *steps: int, since: int = 0) -> History:
    """Return that the second optimizer made these steps of each epoch, from an attempt on."""
    where = lambda done: done.attempt >= since and done.step in steps  # noqa: E731
    return changed(history, ev.StepDone, where, optimizer=SECOND, losses=())


def test_two_optimizers_that_step_as_in_the_baseline_are_right() -> None:
    run, baseline = (second(history, 3) for history in (KILLED.history(), KILLED.baseline()))

    assert judge(KILLED.plan(), run, baseline).status == "pass"


def test_a_journal_without_optimizers_is_judged_by_its_steps() -> None:
    assert result_on("cursor", KILLED).status == "pass"
