"""What begins a job again as it is configured: one fault comes first, and the card tells it."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from chaos.audit.audit import SiteChoice
from chaos.audit.card import Card
from chaos.audit.page import render_card, render_paragraph
from chaos.audit.parts import list_parts
from chaos.audit.plans import set_restart
from chaos.audit.site_category import SEVERAL_RETRIES_CATEGORIES, select_site_categories
from chaos.report.markdown_parts import render_markdown_parts
from chaos.report.terminal_parts import print_parts
from tests.accepted import expect_text
from tests.audit.backend import FakeBackend, audit_of, loses_momentum

FEW = SiteChoice(limit=20)
NONE = {"max_failures": 0}


def printed(card: Card) -> str:
    out = io.StringIO()
    print_parts(list_parts(card), Console(file=out, width=100))
    return out.getvalue()


def test_where_nothing_begins_the_job_again_that_is_a_finding_of_its_own(tmp_path: Path) -> None:
    card = audit_of(tmp_path, FakeBackend(settings=NONE), choice=FEW).run()

    assert card.exit_code == 1
    assert card.findings == ()
    assert (
        "the first lost worker" in (tmp_path / "reports/audits/train-start/junit.xml").read_text()
    )
    assert card.retries.sentence in card.sentence
    assert f"{card.resumed} of {card.resumed} resumes right" in card.sentence
    for told in (
        printed(card),
        render_card(card),
        render_markdown_parts(list_parts(card)),
        render_paragraph(card),
    ):
        assert "first lost worker" in told
        assert "FailureConfig(max_failures=3)" in told.replace("\\_", "_").replace("\\(", "(")


def test_retries_of_production_are_no_finding(tmp_path: Path) -> None:
    card = audit_of(tmp_path, FakeBackend(settings=NONE), choice=FEW, retries=3).run()

    assert card.exit_code == 0
    assert "retries    3, by --retries" in printed(card)
    assert "ends this job" not in render_card(card)


def test_a_script_that_calls_fit_again_is_tried_as_it_is(tmp_path: Path) -> None:
    backend = FakeBackend(settings=NONE, tries=9)
    card = audit_of(tmp_path, backend, choice=FEW).run()

    assert card.exit_code == 0
    assert {p.job.failure.max_failures for p in backend.plans if p.job.failure} == {0}
    assert not any(row.name == "max_failures" for row in card.replaced)
    assert (card.retries.source, card.retries.count) == ("script", 3)
    assert str(card.retries.note) in " ".join(printed(card).split())


def test_a_script_gets_no_more_faults_than_it_has_retries(tmp_path: Path) -> None:
    card = audit_of(tmp_path, FakeBackend(settings=NONE, tries=1), choice=FEW).run()
    told = {row.group: row.why_none for row in card.covered}

    assert card.exit_code == 0
    assert all(len(run.ops) == 1 for run in card.runs)
    assert "begins again after 1 fault" in (told[SEVERAL_RETRIES_CATEGORIES[0]] or "")


def test_both_are_told_where_the_resumes_are_wrong_as_well(tmp_path: Path) -> None:
    backend = FakeBackend(settings=NONE, defect=loses_momentum)
    card = audit_of(tmp_path, backend, choice=FEW).run()

    assert card.findings
    assert "ends this job" in card.sentence
    assert "with retries: fail: " in card.sentence


@pytest.mark.parametrize(("words", "code"), [(("mid-epoch",), 2), ((), 0)])
def test_a_part_of_the_groups_is_no_pass(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    choice = replace(FEW, groups=select_site_categories(words))
    card = audit_of(tmp_path, FakeBackend(), choice=choice).run()

    assert card.exit_code == code
    assert any("left out by --places" in reason for reason in card.reasons) == bool(code)


def test_a_filter_hides_no_finding(tmp_path: Path) -> None:
    choice = replace(FEW, groups=select_site_categories(["mid-epoch"]))
    card = audit_of(tmp_path, FakeBackend(defect=loses_momentum), choice=choice).run()

    assert card.exit_code == 1


def test_a_command_that_is_started_again_needs_no_retries_of_ray_trains(tmp_path: Path) -> None:
    backend = FakeBackend(settings=NONE)
    audit = audit_of(tmp_path, backend, choice=FEW)
    audit.plan = set_restart(audit.plan, "command", ["--resume", "last", "--hf-token", "x"])
    card = audit.run()

    assert card.exit_code == 0
    given = [plan.job.failure.max_failures for plan in backend.plans if plan.job.failure]
    assert min(given) == 1
    assert not any(row.name == "max_failures" for row in card.replaced)
    told = "the same command again, with `--resume last --hf-token '***'`: as often as the faults"
    assert f"restart    {told}" in " ".join(printed(card).split()).replace(
        "restart ", "restart    "
    )


def test_retries_of_rays_own_come_before_a_start_of_the_command(tmp_path: Path) -> None:
    audit = audit_of(tmp_path, FakeBackend(settings={"max_failures": 3}), choice=FEW, retries=2)
    audit.plan = set_restart(audit.plan, "command", [])

    note = audit.run().retries.note or ""

    expect_text(note)
