"""A pass names the finding that was accepted, and its reason."""

import pytest

from chaos.audit.audit import SiteChoice
from chaos.audit.card import Card
from chaos.audit.card_writer import _note_accepted
from tests.accepted import expect_text
from tests.audit.backend import FakeBackend, audit_of, loses_momentum
from tests.audit.cards import EPOCHS, passing, run_of


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Card:
    backend = FakeBackend(epochs=20, defect=loses_momentum)
    return audit_of(tmp_path_factory.mktemp("card"), backend, choice=SiteChoice(limit=40)).run()


def test_a_pass_names_the_finding_that_was_accepted_and_its_reason(card: Card) -> None:
    accepted = EPOCHS.replace(accepted_reasons=("we train one more",), sentence="5 epochs")
    runs = [run_of(n).replace(accepted=(accepted,)) for n in range(2)]

    [note] = _note_accepted(runs)

    expect_text(passing(card, *runs).sentence, "passing card runs sentence")
    assert note.kind == "accepted"
    expect_text(note.text, "note text")
