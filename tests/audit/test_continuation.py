"""A second audit: what failed comes first, and what holds is not tried again."""

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from chaos.audit.audit import ALL_GROUPS, SiteChoice
from chaos.audit.budget import UNLIMITED, Budget
from chaos.audit.card import Card
from chaos.audit.continuation import EarlierAudit
from chaos.audit.page import render_card, render_paragraph
from chaos.audit.parts import list_parts
from chaos.audit.sections import describe_changes
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.plan import Plan
from chaos.report.markdown_parts import render_markdown_parts
from chaos.report.terminal_parts import render_plain_parts
from chaos.wording import plural
from tests.audit.backend import Defect, FakeBackend, audit_of, loses_momentum
from tests.check.story import Story
from tests.check.tamper import changed

FEW = SiteChoice(groups=("mid-epoch", "epoch boundary", "before the first commit"))


def audited(
    folder: Path,
    defect: Defect | None = None,
    *,
    code: str = "",
    epochs: int = 3,
    budget: Budget = UNLIMITED,
    choice: SiteChoice = FEW,
    words: Sequence[str] = (),
) -> tuple[Card, list[Plan]]:
    """Audit a script, which has this code, and continue the last audit of it."""
    backend = FakeBackend(epochs=epochs, steps=2, defect=defect)
    audit = audit_of(folder, backend, *words, choice=choice, budget=budget)
    (folder / "train.py").write_text(f"import ray.train\n{code}\n")
    audit.earlier_audit = EarlierAudit.find_latest(folder / "reports", audit.plan)
    return audit.run(), [plan for plan in backend.plans if plan.ops and plan.job.failure]


def places(plans: Sequence[Plan]) -> list[object]:
    return [op.at for plan in plans for op in plan.ops]


def loses_after_two(story: Story, history: History) -> History:
    """Shift the losses of whatever was trained after a second restart."""
    return changed(
        history, ev.StepDone, lambda e: e.attempt > 1, losses=lambda e: (e.losses[0] + 0.01,)
    )


def test_what_failed_is_tried_first_and_what_was_right_last(tmp_path: Path) -> None:
    first, _ = audited(tmp_path, loses_momentum, budget=Budget(runs=6))
    wrong = [run.ops[0].at for run in first.wrong]
    right = [run.ops[0].at for run in first.runs if run.is_right]

    card, plans = audited(tmp_path, code="mended = True")

    found, tried = card.since, places(plans)
    assert found is not None
    assert tried[0] == first.findings[0].smallest.ops[0].at
    assert {*tried[: len(wrong)]} == {*wrong}
    assert {*tried[-len(right) :]} == {*right}
    assert len(found.mended) == len(wrong) > 0
    assert (found.still, found.new, found.untold, found.gone, found.kept) == ((), (), (), (), 0)


def test_a_second_audit_passes_by_what_a_first_one_needs(tmp_path: Path) -> None:
    audited(tmp_path, loses_momentum, budget=Budget(runs=6), choice=ALL_GROUPS)

    card, plans = audited(tmp_path, code="mended = True", choice=ALL_GROUPS)
    last, none = audited(tmp_path, code="mended = True", choice=ALL_GROUPS)

    assert (card.word, card.places[0]) == ("pass", card.places[1])
    assert plans
    assert (last.word, last.places, none) == ("pass", card.places, [])
    assert last.since is not None
    assert last.since.kept == card.places[0]


def test_what_is_still_wrong_and_what_is_new_are_told_apart(tmp_path: Path) -> None:
    first, _ = audited(tmp_path, loses_momentum, budget=Budget(runs=6))

    card, _ = audited(tmp_path, loses_momentum, code="other = True", budget=Budget(runs=9))

    found = card.since
    assert found is not None
    assert card.word == "fail"
    assert len(found.still) == len(first.wrong)
    assert len(found.still) + len(found.new) == card.broken
    assert found.mended == found.broken == ()
    lines = {line.label: line.text for line in describe_changes(card)}
    assert lines["still wrong"].startswith(f"{plural(len(found.still), 'place')}: ")
    assert lines["new"].startswith(f"{plural(len(found.new), 'place')}: ")


def test_what_was_right_and_breaks_is_named(tmp_path: Path) -> None:
    audited(tmp_path)

    card, _ = audited(tmp_path, loses_momentum, code="broken = True")

    assert card.since is not None
    assert card.since.new == card.since.broken
    assert len(card.since.new) == card.broken > 0
    assert f"{card.broken} of them right then" in next(describe_changes(card)).text


def test_of_the_same_code_what_was_right_is_not_tried_again_and_counts(tmp_path: Path) -> None:
    first, one = audited(tmp_path, budget=Budget(runs=6))

    card, more = audited(tmp_path)

    assert card.since is not None
    assert card.since.kept == first.right + first.scratch_count == 6
    assert not {*places(one)} & {*places(more)}
    assert len({run.place.key for run in card.runs}) == len(card.runs) == card.places[0]
    assert len({run.number for run in card.runs}) == card.run_count
    junit = ET.parse(Path(card.folder) / "junit.xml").getroot()
    assert len(list(junit.iter("skipped"))) == 6


def test_a_file_of_settings_is_seen_to_change(tmp_path: Path) -> None:
    """A restart alone may read it, and no clean run shows that."""
    audited(tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "resume.yaml").write_text("strict: false\n")

    card, plans = audited(tmp_path)

    assert card.since is not None
    assert card.since.kept == 0
    assert plans


def test_what_is_mended_by_nothing_is_no_pass(tmp_path: Path) -> None:
    first, _ = audited(tmp_path, loses_momentum, budget=Budget(runs=6))

    card, _ = audited(tmp_path, budget=Budget(runs=6))

    assert card.since is not None
    assert card.since.is_unexplained
    assert card.since.kept == 0
    assert card.places[0] == first.places[0]
    assert card.word == "inconclusive"
    assert "came out right, and nothing that chaos sees has changed" in card.reasons[0]


def test_without_an_answer_for_what_failed_there_is_no_pass(tmp_path: Path) -> None:
    first, _ = audited(tmp_path, loses_momentum, budget=Budget(runs=6))

    card, _ = audited(tmp_path, code="mended = True", budget=Budget(runs=2))

    assert card.since is not None
    assert len(card.since.untold) == len(first.wrong) - 2
    assert f"{len(card.since.untold)} places that failed in" in " ".join(card.reasons)


def test_a_place_that_the_job_has_no_more_is_no_reason(tmp_path: Path) -> None:
    audited(tmp_path, loses_momentum, epochs=4)

    card, _ = audited(tmp_path, code="shorter = True", epochs=3)

    assert card.since is not None
    assert "epoch 3" in " ".join(card.since.gone)
    assert {"epoch 3" in name for name in card.since.mended} == {False}
    assert "came to no answer" not in " ".join(card.reasons)


def test_a_run_of_several_places_that_was_wrong_is_made_again(tmp_path: Path) -> None:
    first, _ = audited(tmp_path, loses_after_two)
    [combined] = [run for run in first.wrong if run.is_combined]

    same, plans = audited(tmp_path, loses_after_two)
    card, _ = audited(tmp_path, code="mended = True")

    assert same.since is not None
    assert combined.name in same.since.still
    assert [op.at for op in plans[0].ops] == [op.at for op in combined.ops]
    assert card.since is not None
    assert combined.name in card.since.mended
    assert card.broken == 0
    assert not any(run.is_combined for run in card.runs)


def test_an_audit_with_other_arguments_is_another_one(tmp_path: Path) -> None:
    audited(tmp_path, words=("--epochs", "3"), budget=Budget(runs=2))

    card, _ = audited(tmp_path, words=("--epochs", "4"), budget=Budget(runs=2))
    again, _ = audited(tmp_path, words=("--epochs", "3"), budget=Budget(runs=2))

    assert card.since is None
    assert again.since is not None


@pytest.fixture(scope="module")
def mended(tmp_path_factory: pytest.TempPathFactory) -> Card:
    folder = tmp_path_factory.mktemp("mended")
    audited(folder, loses_momentum, budget=Budget(runs=6))
    card, _ = audited(folder, code="mended = True")
    return card


def test_every_report_tells_what_is_mended(mended: Card) -> None:
    assert mended.since is not None
    count = len(mended.since.mended)
    texts = [
        render_plain_parts([*list_parts(mended)]),
        render_markdown_parts(list_parts(mended)),
        render_card(mended),
    ]

    for text in texts:
        assert f"{count} places: " in text
        assert mended.since.mended[0] in text
    assert f"Since the last audit: {count} mended." in render_paragraph(mended)
    assert Card.from_json(mended.to_json()) == mended
