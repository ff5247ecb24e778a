"""What a card says of planted losses, in each of its forms."""

from chaos.audit.brief import list_brief_parts
from chaos.audit.card import AuditedJob, Card, Controls, GroupCoverage, LossResult, PlantedLoss
from chaos.audit.determinism import CleanRunComparison
from chaos.audit.page import build_annotations, render_card, render_paragraph
from chaos.audit.parts import list_parts
from chaos.report.ci import render as render_junit
from chaos.report.terminal_parts import render_plain_parts
from tests.accepted import expect_text
from tests.audit.cards import run_of


def loss_of(part: str, result: LossResult, *, is_named: bool = False) -> PlantedLoss:
    return PlantedLoss(part=part, result=result, is_named=is_named, reason="seen")


SAME = CleanRunComparison(losses_compared=9, losses_differing=0, metrics_differing=(), first=None)
CONTROLS = Controls(
    place="attempt 1, resumed at epoch 2, step 0",
    losses=(
        loss_of("model", "found", is_named=True),
        loss_of("step", "found"),
        loss_of("meter.count", "not found"),
        loss_of("schedule", "in doubt"),
        loss_of("best", "no consequence"),
        loss_of("optimizer.1", "not planted"),
    ),
)


def test_the_sentence_counts_what_may_have_a_consequence_and_names_the_rest() -> None:
    expect_text(str(CONTROLS))
    assert CONTROLS.summary.startswith("2 of 4")


def test_where_nothing_was_planted_the_sentence_says_why() -> None:
    expect_text(str(Controls(reason="no time was left")))


def card_of(controls: Controls | None) -> Card:
    """Return the card of a pass."""
    run = run_of(0)
    group = GroupCoverage(
        group="mid-epoch", tried=1, chosen=1, places=9, why_none=None, resumes=True
    )
    job = AuditedJob(
        script="train.py", args=(), workers=2, epochs=4, steps=24, saved=4, clean_s=1.0,
        own_retries=3,
    )  # fmt: skip
    return Card(
        version="0.1.0",
        backend="fork",
        seed=0,
        command="chaos audit train.py --controls",
        folder="reports/audits/train",
        ended="all",
        seconds=1.0,
        versions={},
        job=job,
        repetition=SAME,
        notes=(),
        covered=(group,),
        runs=(run,),
        findings=(),
        controls=controls,
    )


def test_a_card_says_it_on_the_terminal_the_page_and_in_every_document() -> None:
    card = card_of(CONTROLS)
    brief = render_plain_parts([*list_brief_parts(card)])
    texts = (
        brief,
        render_plain_parts([*list_parts(card)]),
        render_card(card),
        render_paragraph(card),
        build_annotations(card)[0],
        render_junit([], properties={"controls": str(CONTROLS)}),
    )

    assert all("2 of 4 planted losses" in " ".join(text.split()) for text in texts)
    assert "::notice file=train.py" in texts[4]
    assert f", {CONTROLS.summary} (" in card.badge


def test_the_answer_is_the_same_with_a_blind_spot_and_without_controls() -> None:
    card, plain = card_of(CONTROLS), card_of(None)

    assert (card.word, card.sentence, card.exit_code) == (
        plain.word,
        plain.sentence,
        plain.exit_code,
    )
    assert "controls" not in plain.badge
    assert Card.from_json(card.to_json()).controls == CONTROLS
