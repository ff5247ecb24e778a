"""What is shared of a card: its page, a paragraph, and a line for a README."""

from pathlib import Path

import pytest

from chaos.audit.answer import describe_confidence
from chaos.audit.audit import SiteChoice
from chaos.audit.card import Card
from chaos.audit.page import render_card, render_paragraph
from tests.accepted import expect_text
from tests.audit.backend import FakeBackend, audit_of, loses_momentum


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Card:
    backend = FakeBackend(epochs=4, defect=loses_momentum)
    return audit_of(tmp_path_factory.mktemp("card"), backend, choice=SiteChoice(limit=10)).run()


def test_a_paragraph_lies_beside_the_card(card: Card) -> None:
    assert Path(card.folder, "summary.md").read_text(encoding="utf-8") == render_paragraph(card)


def test_a_kind_that_was_not_tried_is_named_wherever_the_card_is_shared(card: Card) -> None:
    kept = tuple(run for run in card.runs if run.group != "node lost")
    less = card.model_copy(update={"runs": kept})

    assert "Not tested: node lost." in render_paragraph(less)
    assert "Not tested: node lost." in render_card(less)


def test_every_cause_is_in_the_paragraph_with_its_command(card: Card) -> None:
    for finding in card.findings:
        assert f"chaos run {card.folder}/{finding.repro}" in render_paragraph(card)


def test_few_right_resumes_prove_little_and_a_failure_none(card: Card) -> None:
    right = tuple(run.model_copy(update={"status": "pass", "resumed": 1}) for run in card.runs[:4])
    less = card.model_copy(update={"runs": right, "findings": ()})

    assert describe_confidence(card) is None
    expect_text(describe_confidence(less))


def test_a_job_of_torchrun_is_shown_with_torchruns_version(card: Card) -> None:
    job = card.job.model_copy(update={"launcher": "torchrun"})
    versions = {"torch": "2.13.0", "ray": "2.60.0"}
    started = card.model_copy(update={"job": job, "versions": versions})

    assert "torchrun 2.13)" in started.badge
