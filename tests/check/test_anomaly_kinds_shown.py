"""Each kind of finding is shown by a wrong run, and no right run that looks like it is blamed."""

import pytest

from tests.check.kinds_shown import Row, find_kinds, read_table
from tests.check.prose_texts import list_facts_types

ROWS = read_table()
RIGHT_ROWS = [
    pytest.param(kind, right_row, id=f"{kind}: {right_row.why}")
    for kind, row in ROWS.items()
    for right_row in row.right_rows
]


def test_each_kind_has_a_row_and_no_row_is_left_over() -> None:
    assert sorted(ROWS) == sorted(facts_type.kind for facts_type in list_facts_types())


@pytest.mark.parametrize("kind", ROWS)
def test_a_wrong_run_shows_the_kind(kind: str) -> None:
    verdict, _ = ROWS[kind].judge("wrong")

    assert kind in find_kinds(verdict), verdict.headline


@pytest.mark.parametrize(("kind", "row"), RIGHT_ROWS)
def test_a_right_run_that_looks_like_it_is_not_blamed(kind: str, row: Row) -> None:
    verdict, each_by_itself = row.judge("right")

    assert (verdict.status, find_kinds(verdict)) == (row.verdict, set()), verdict.headline
    assert kind not in find_kinds(each_by_itself)
