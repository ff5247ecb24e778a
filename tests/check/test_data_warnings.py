"""What a job does with its data whether or not it is struck: a note, and never a verdict."""

import pytest

from chaos.check.analysis import RunTables
from chaos.check.data_warnings import find_data_warnings
from chaos.check.judge import judge
from tests.check.shorthand import plan_of, told_in

ORDERED = "g s:ab/cd s:ef/gh r c s:ab/cd s:ef/gh r c ."
DOUBLE = "g s:ab/ab s:cd/cd r c s:ba/ba s:dc/dc r c ."


def noted(line: str) -> list[str]:
    """Return the notes on a clean run, by what they begin with."""
    return [note.split(",")[0] for note in find_data_warnings(RunTables(told_in(line)).lineage)]


ONE_ORDER = "every epoch is trained in one and the same order"
ONE_SHARE = "all ranks train the same samples"


@pytest.mark.parametrize(
    ("line", "notes"),
    [
        pytest.param(ORDERED, [ONE_ORDER], id="each epoch in one order"),
        pytest.param(DOUBLE, [ONE_SHARE], id="all ranks on the same samples"),
        pytest.param(
            "g s:ab/dc s:cd/ba r c s:ba/cd s:dc/ab r c .",
            [ONE_SHARE],
            id="all ranks on the same samples, each in its own order",
        ),
        pytest.param("g s:ab/ab s:cd/cd r c s:ab/ab s:cd/cd r c .", [ONE_ORDER, ONE_SHARE]),
        pytest.param("g s:ab/cd s:ef/gh r c s:ga/hb s:ce/df r c .", [], id="shuffled"),
        pytest.param(
            "g s:ab/cd s:ef/gh r c s:ab/cd s:ef/hg r c .", [], id="one rank in another order"
        ),
        pytest.param("g s:ab/cd r c s:ab/cd r c .", [], id="a batch is an epoch: no order"),
        pytest.param("g s:a/a s:a/a r c s:a/a s:a/a r c .", [], id="there is one sample"),
        pytest.param("g s:ab/cd s:ef/gh r c .", [], id="one epoch"),
        pytest.param("g s:ab/ab s:cd/cd r c s s r c .", [], id="not all inputs were seen"),
        pytest.param("g s s r c s s r c .", [], id="no input was seen"),
    ],
)
def test_a_note_is_made_where_it_was_seen_and_only_there(line: str, notes: list[str]) -> None:
    assert noted(line) == notes


@pytest.mark.parametrize("line", [ORDERED, DOUBLE])
def test_a_habit_changes_no_verdict(line: str) -> None:
    words = line.split()
    struck = " ".join([*words[:5], words[5], "x", "g<c0", *words[5:]])

    verdict = judge(plan_of(struck), told_in(struck), told_in(line))

    assert verdict.status == "pass", verdict.headline
    assert len(verdict.notes) == 1


def test_a_clean_run_is_its_own_evidence() -> None:
    assert len(judge(plan_of(ORDERED), told_in(ORDERED)).notes) == 1


def test_nothing_is_noted_of_a_struck_run_without_a_baseline() -> None:
    struck = "g s:ab/cd s:ef/gh r c s:ab/cd x g<c0 s:ab/cd s:ef/gh r c ."

    assert judge(plan_of(struck), told_in(struck)).notes == ()
