"""The tables of a card."""

import pytest

from chaos.audit.audit import SiteChoice
from chaos.audit.card import Card
from chaos.audit.table import (
    build_cells,
    build_check_rows,
    count_places_by_column,
    group_rows,
    kind_rows,
    label_columns,
)
from tests.audit.backend import FakeBackend, audit_of, loses_momentum


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Card:
    backend = FakeBackend(epochs=20, defect=loses_momentum)
    return audit_of(tmp_path_factory.mktemp("card"), backend, choice=SiteChoice(limit=40)).run()


def test_the_table_by_epoch_has_every_place_of_the_job_tried_or_not(card: Card) -> None:
    drawn = build_cells(card)

    assert sum(cell.tally.total for cell in drawn) == len(card.runs)
    assert sum(cell.places for cell in drawn) == sum(row.places for row in card.covered)
    assert any(cell.tally.fate == "not tried" for cell in drawn)
    assert len(card.columns) <= 16
    assert (card.columns[:2], card.columns[-1]) == (("0-1", "2-3"), "18-19")


def test_a_job_of_few_epochs_has_a_column_for_each() -> None:
    assert label_columns(3) == ("0", "1", "2")
    assert label_columns(1) == ("0",)
    assert count_places_by_column({0: 4, 2: 1}, 3) == (4, 0, 1)
    assert sum(count_places_by_column({9: 1, 33: 2}, 34)) == 3


def test_the_tables_agree_with_the_runs(card: Card) -> None:
    for rows in (group_rows(card), kind_rows(card)):
        assert sum(row.tally.right for row in rows) == card.right
        assert sum(row.tally.from_scratch for row in rows) == card.scratch_count
        assert sum(row.tally.wrong for row in rows) == card.broken
        assert sum(row.tally.total for row in rows) == len(card.runs)
    for row in build_check_rows(card):
        assert row.with_evidence + row.without_evidence + row.inconclusive == len(card.runs)
