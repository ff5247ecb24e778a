"""Findings do not depend on the sentences about them."""

import random
import string
from pathlib import Path

import pytest

from chaos.audit.audit import SiteChoice
from chaos.audit.card import Card
from chaos.check import anomaly
from chaos.check.kinds.base import Facts
from chaos.model.launcher_facts import LauncherWords
from tests.audit.backend import FakeBackend, audit_of, loses_momentum


def card_of(folder: Path) -> Card:
    folder.mkdir()
    backend = FakeBackend(epochs=6, defect=loses_momentum)
    return audit_of(folder, backend, choice=SiteChoice(limit=12)).run()


def test_other_sentences_make_no_other_finding_and_no_other_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome(card: Card) -> object:
        findings = [(f.defect, f.runs, f.severity, f.groups) for f in card.findings]
        return card.exit_code, card.word, findings

    draw = random.Random(0)

    def scramble(facts: Facts, terms: LauncherWords) -> str:
        return "".join(draw.choices(string.ascii_lowercase + " ", k=draw.randrange(1, 80)))

    before = outcome(card_of(tmp_path / "before"))
    monkeypatch.setattr(anomaly, "describe_finding", scramble)

    assert outcome(card_of(tmp_path / "after")) == before
