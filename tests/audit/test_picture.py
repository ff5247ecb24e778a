"""What is shared of a card: a picture, a badge, a paragraph."""

from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from chaos.audit.answer import describe_confidence
from chaos.audit.audit import SiteChoice
from chaos.audit.card import Card
from chaos.audit.page import badge_svg, render_card, render_paragraph, summary_svg
from chaos.audit.site_category import list_kinds
from tests.accepted import expect_text
from tests.audit.backend import FakeBackend, audit_of, loses_momentum


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Card:
    backend = FakeBackend(epochs=4, defect=loses_momentum)
    return audit_of(tmp_path_factory.mktemp("card"), backend, choice=SiteChoice(limit=10)).run()


def words_of(svg: str) -> str:
    return " ".join(text.strip() for text in ET.fromstring(svg).itertext() if text.strip())


def test_pictures_and_a_paragraph_lie_beside_the_card(card: Card) -> None:
    for name, text in (("summary.svg", summary_svg(card)), ("badge.svg", badge_svg(card))):
        assert Path(card.folder, name).read_text(encoding="utf-8") == text
    assert Path(card.folder, "summary.md").read_text(encoding="utf-8") == render_paragraph(card)


def test_the_badge_says_how_many_resumes_were_right_and_never_how_many_places(card: Card) -> None:
    tried, places = card.places

    said = words_of(badge_svg(card))

    assert f"fail · resumes {card.resumed_right}/{card.resumed}" in said
    assert f"coverage {tried / places:.0%}" in said
    assert f"{tried} of" not in said


def test_a_kind_that_was_not_tried_is_named_wherever_the_card_is_shared(card: Card) -> None:
    kept = tuple(run for run in card.runs if run.group != "node lost")
    less = card.model_copy(update={"runs": kept})

    assert "node lost" in words_of(summary_svg(less))
    assert "not tried" in words_of(summary_svg(less))
    assert "Not tested: node lost." in render_paragraph(less)
    assert "Not tested: node lost." in render_card(less)


def test_every_cause_is_in_the_paragraph_with_its_command(card: Card) -> None:
    for finding in card.findings:
        assert f"chaos run {card.folder}/{finding.repro}" in render_paragraph(card)


def boxes(svg: str) -> list[tuple[str, float, float, float, float]]:
    """Return each text of a picture, with the left, right, top and bottom that it may take."""
    found = []
    root = ET.fromstring(svg)
    sizes = {text: group for group in root for text in group}
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        given = {**getattr(sizes.get(text), "attrib", {}), **text.attrib}
        size, words = float(given["font-size"]), text.text or ""
        width, x, y = 0.5 * size * len(words), float(given["x"]), float(given["y"])
        left = x - width if given.get("text-anchor") == "end" else x
        found.append((words, left, left + width, y - 0.8 * size, y + 0.2 * size))
    return found


@pytest.mark.parametrize("causes", [0, 1, 3, 5])
@pytest.mark.parametrize("tried", [True, False])
def test_no_text_of_the_summary_lies_over_another(card: Card, tried: bool, causes: int) -> None:
    every = [
        covered.model_copy(update={"places": 9, "tried": 0, "chosen": 9})
        for covered in card.covered
    ]
    found = (card.findings[0],) * causes
    full = card.model_copy(
        update={"covered": tuple(every), "findings": found, "runs": card.runs if tried else ()}
    )

    drawn = boxes(summary_svg(full))

    kinds = list_kinds(card.job.facts)
    assert sum(words in kinds for words, *_ in drawn) == len(kinds)
    for one, other in combinations(drawn, 2):
        apart = one[2] <= other[1] or other[2] <= one[1] or one[4] <= other[3] or other[4] <= one[3]
        assert apart, (one, other)
    assert all(left >= 0 and top >= 0 and bottom <= 630 for _, left, _, top, bottom in drawn)


def test_a_fault_that_the_job_has_no_place_for_takes_no_line_of_the_summary(card: Card) -> None:
    said = words_of(summary_svg(card))

    assert "no place" not in said
    assert "loader process killed" not in said


def test_no_name_of_a_job_can_break_out_of_a_picture(card: Card) -> None:
    job = card.job.model_copy(update={"script": "</svg><script>alert(1)</script>&"})
    evil = card.model_copy(update={"job": job})

    assert "<script>" not in summary_svg(evil)
    assert ET.fromstring(summary_svg(evil)).tag.endswith("svg")


def test_few_right_resumes_prove_little_and_a_failure_none(card: Card) -> None:
    right = tuple(run.model_copy(update={"status": "pass", "resumed": 1}) for run in card.runs[:4])
    less = card.model_copy(update={"runs": right, "findings": ()})

    assert describe_confidence(card) is None
    expect_text(describe_confidence(less))


def test_a_job_of_torchrun_is_shown_with_torchruns_version(card: Card) -> None:
    job = card.job.model_copy(update={"launcher": "torchrun"})
    versions = {"torch": "2.13.0", "ray": "2.60.0"}
    started = card.model_copy(update={"job": job, "versions": versions})

    assert "torchrun 2.13.0" in words_of(summary_svg(started))
    assert "Ray 2.60.0" not in words_of(summary_svg(started))
    assert "torchrun 2.13)" in started.badge
