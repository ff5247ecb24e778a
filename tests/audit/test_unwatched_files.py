"""Files that no watched process wrote: what the card says of them, and which jobs are refused."""

from typing import Any

import pytest

from chaos.audit.notes import note_side_effects, note_uncompared_files
from chaos.errors import JobError
from chaos.job_failure import refuse_unwatched_files
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.plan import Plan
from tests.accepted import expect_text
from tests.check.shorthand import plan_of, told_in
from tests.check.tamper import told

LINE = "g s w:m.pt u r c ."


def history(**what: Any) -> History:  # the fields of the event
    fields: dict[str, Any] = {"new": {}, "changed": {}, **what}
    return told(told_in(LINE), ev.FolderCompared(**fields))


@pytest.fixture
def plan() -> Plan:
    return plan_of(LINE)


def test_a_file_that_each_clean_run_leaves_otherwise_is_refused(plan: Plan) -> None:
    first = history(new={"/desk/tally.txt": "1-a"})

    with pytest.raises(JobError, match=r"/desk/tally.txt appeared .* --allow-writes /desk/tally"):
        refuse_unwatched_files(plan, first, [history(changed={"/desk/tally.txt": "1-b"})])


@pytest.mark.parametrize(
    "later",
    [{}, {"changed": {"/desk/tally.txt": "1-a"}}, {"changed": {"/desk/notes.md": "1-b"}}],
    ids=["never again", "with the same content", "another file"],
)
def test_a_file_that_says_nothing_of_the_run_before_is_not_refused(
    plan: Plan, later: dict[str, Any]
) -> None:
    refuse_unwatched_files(plan, history(new={"/desk/tally.txt": "1-a"}), [history(**later)])


def test_what_was_left_and_where_the_look_was_cut_is_on_the_card() -> None:
    said = [
        note.text for note in note_side_effects(history(new={"/desk/a": "1-a"}, cut="/desk/many"))
    ]

    assert any("/desk/a appeared while the" in text for text in said)
    assert any("looked at in part" in text and "/desk/many" in text for text in said)


def test_what_is_compared_with_nothing_is_named() -> None:
    (note,) = note_uncompared_files({"export.pt": (), "log.csv": ("time",)})

    expect_text(note.text)
    assert note_uncompared_files({}) == []
