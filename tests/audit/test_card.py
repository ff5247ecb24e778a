"""The card of an audit, on a terminal and as a page."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from chaos.audit.audit import SiteChoice
from chaos.audit.card import Card, GroupCoverage
from chaos.audit.finding import group_findings
from chaos.audit.page import render_card
from chaos.audit.parts import list_figures, list_parts
from chaos.audit.run_row import RunRow
from chaos.audit.sections import describe_equal_results
from chaos.audit.table import (
    count_results,
    group_rows,
    part_rows,
)
from chaos.faults.preempt_node import PreemptNode
from chaos.model.diagnosis import Standing
from chaos.report.terminal_parts import print_parts
from tests.accepted import expect_text
from tests.audit.backend import FakeBackend, audit_of, loses_momentum
from tests.audit.cards import EPOCHS, PARTED, passing, run_of


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Card:
    backend = FakeBackend(epochs=20, defect=loses_momentum)
    return audit_of(tmp_path_factory.mktemp("card"), backend, choice=SiteChoice(limit=40)).run()


def test_a_kind_of_fault_that_was_not_tried_is_on_the_card(card: Card) -> None:
    kept = tuple(run for run in card.runs if run.group != "notice before the loss")
    less = card.model_copy(update={"runs": kept})

    assert re.search(r"notice +0 of \d+ +not tried", printed(less))
    assert "not tried" in render_card(less)
    assert re.search(r"inside a load +no place", printed(less))


def test_what_did_not_come_back_without_consequence_is_not_called_restored(card: Card) -> None:
    parts: dict[str, Standing] = {"rng.torch": "reset", "model": "restored"}
    runs = tuple(
        run_of(n).model_copy(update={"parts": parts, "idle": ("rng.torch",)}) for n in (0, 1)
    )
    idle = card.model_copy(update={"runs": runs, "findings": ()})

    [rng, model] = part_rows(idle)
    assert (rng.standing, rng.idle, rng.lost, rng.restored, rng.resumes) == ("reset", 2, 0, 0, 2)
    assert (model.standing, model.restored) == ("restored", 2)
    text = " ".join(printed(idle).split())
    assert "rng.torch reset, no consequence" in text


@pytest.mark.parametrize("framed", [True, False])
def test_the_card_fits_a_terminal_of_80_columns_and_breaks_nothing_that_is_copied(
    card: Card, framed: bool
) -> None:
    text = printed(card, framed=framed)
    copied = ("repro ", "report ", "again ", "card ", "badge ")
    kept = [line for line in text.splitlines() if not line.startswith(copied)]

    assert max(len(line) for line in kept) <= 80 or not framed
    assert "…" not in text
    command = f"chaos run {card.folder}/{card.findings[0].repro}"
    assert any(line.endswith(command) for line in text.splitlines())
    assert ("╭" in text) == framed
    assert "not sampled" in text


def test_the_page_says_what_was_found_and_loads_nothing(card: Card) -> None:
    page = render_card(card)

    assert card.sentence[1:] in page
    assert "repro/trajectory.chaos.yaml" in page
    assert card.findings[0].smallest.headline.replace("'", "&#39;") in page
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', page)
    for run in card.wrong:
        assert f'id="run-{run.number}"' in page
    assert 'id="places"' in page
    assert "data-spec" not in page


def test_no_name_of_a_job_can_break_out_of_the_page(card: Card) -> None:
    evil = "</script><img src=x onerror=alert(1)>"
    job = card.job.model_copy(update={"script": evil})

    page = render_card(card.model_copy(update={"job": job, "command": evil}))

    assert evil not in page


def test_an_audit_that_struck_nothing_is_no_success(card: Card) -> None:
    empty = card.model_copy(update={"runs": (), "findings": ()})

    assert empty.exit_code == 2
    assert "nothing is known" in render_card(empty)
    assert "inconclusive" in empty.badge


def test_a_card_can_be_read_where_it_lies(card: Card) -> None:
    assert Path(card.folder, "card.html").is_file()


def test_steps_that_nobody_saw_are_not_counted_as_none_lost(card: Card) -> None:
    blind = tuple(run.model_copy(update={"lost_steps": None}) for run in card.runs)
    unseen = card.model_copy(update={"runs": blind})

    [row, *_] = [row for row in group_rows(unseen) if row.tried]
    assert (row.lost_max, row.lost_mean) == (None, None)
    assert list_figures(unseen)["recomputed steps, worst"] == "-"
    assert re.search(r"\d of \d+ +\d of \d +-", printed(unseen))
    assert '"recomputed, worst">-</td>' in render_card(unseen)


def test_the_card_says_how_large_the_job_is(card: Card) -> None:
    size = "2 ranks, 20 epochs of up to 6 steps, 120 steps per rank, 20 checkpoints"

    assert card.size == size
    assert size in " ".join(printed(card).split())
    assert size in render_card(card)


def test_a_job_that_never_reports_has_one_pass(card: Card) -> None:
    job = card.job.model_copy(update={"epochs": 0, "epoch_steps": 80, "steps": 80, "saved": 0})

    expect_text(card.model_copy(update={"job": job}).size)


def test_of_a_job_that_may_not_be_preempted_the_card_says_what_it_was_given(card: Card) -> None:
    runs = (run_of(0), run_of(1, preempt_node=PreemptNode(notice_s=1.0)))

    survivor = passing(card, *runs, own_preemptions=0)

    assert "max_preemption_failures: 0" in survivor.sentence


def test_a_run_with_a_right_resume_in_each_group_passes(card: Card) -> None:
    expect_text(passing(card).sentence)
    assert passing(card).exit_code == 0


def test_what_is_accepted_is_told_and_is_no_failure(card: Card) -> None:
    run = run_of(0).replace(accepted=(PARTED,))

    accepting = passing(card, run).model_copy(update={"accept": ("rng",)})

    assert accepting.exit_code == 0
    expect_text(accepting.sentence)


def test_a_result_that_is_accepted_is_not_said_to_be_uncompared(card: Card) -> None:
    run = run_of(0).replace(accepted=(EPOCHS,), equal=("files",), different=("steps", "state"))

    text = describe_equal_results(passing(card, run))

    expect_text(text)


def test_the_headline_says_how_bad_it_is(card: Card) -> None:
    drawn = PARTED.model_copy(update={"severity": "not reproducible"})
    bad = run_of(0, drawn).model_copy(update={"severity": "wrong result"})

    graded = passing(card, bad).model_copy(update={"findings": group_findings([bad])})

    expect_text(graded.sentence)


def anew(number: int) -> RunRow:
    return run_of(number).model_copy(update={"resumed": 0, "from_scratch": 1})


def test_a_start_that_finds_nothing_left_to_do_begins_nothing_anew(card: Card) -> None:
    idle = run_of(1).model_copy(update={"resumed": 0, "from_scratch": 0})
    two = card.model_copy(update={"runs": (idle, anew(2))})

    assert (two.right, two.scratch_count) == (1, 1)
    assert (count_results(two.runs).right, count_results(two.runs).from_scratch) == (1, 1)


def untold(number: int, *, landed: int) -> RunRow:
    return run_of(number).model_copy(update={"status": "inconclusive", "landed": landed})


NOISY = {"losses_compared": 9, "losses_differing": 3, "first": "epoch 0, step 1, rank 0: 1"}


@pytest.mark.parametrize(
    ("runs", "update", "says"),
    [
        ((anew(0),), {}, "no restart went on from a checkpoint"),
        ((run_of(0), untold(1, landed=1)), {}, "1 of 2 places could not be judged: Run 1"),
        ((untold(0, landed=0),), {}, "'mid-epoch' was not tried"),
        ((), {"missing_parts": ("a late",)}, "no restart went on from a late checkpoint"),
        ((), {"hashes_apart": "epoch 0, step 1"}, "with another hash seed"),
        ((), {"ended": "interrupted"}, "the audit was interrupted"),
    ],
)
def test_what_was_not_shown_is_no_pass(
    card: Card, runs: tuple[RunRow, ...], update: dict[str, Any], says: str
) -> None:
    less = passing(card, *runs).model_copy(update=update)

    assert less.exit_code == 2
    assert less.sentence.startswith("inconclusive: ")
    assert says in " ".join(less.reasons)
    assert says in " ".join(printed(less).split())


@pytest.mark.parametrize(
    ("hidden", "tolerance", "code"),
    [(0.37, False, 2), (None, False, 2), (0.001, False, 0), (None, True, 0)],
)
def test_a_band_that_hides_more_than_a_few_percent_is_no_pass(
    card: Card, hidden: float | None, tolerance: bool, code: int
) -> None:
    noisy = card.repetition.model_copy(update={**NOISY, "hidden_part": hidden})
    update = {"repetition": noisy, "has_tolerance": tolerance}

    assert passing(card).model_copy(update=update).exit_code == code


def test_a_job_whose_saves_are_gone_at_every_restart_keeps_no_checkpoint(card: Card) -> None:
    gone, there, before = (
        anew(number).model_copy(update={"keeps": keeps})
        for number, keeps in enumerate((False, True, None))
    )
    own = {"launcher": "torchrun", "keeps_files": True}

    none = passing(card, gone, before, **own)

    assert none.exit_code == 2
    expect_text(none.reasons[0], "none reasons 0")
    assert none.size.endswith(", no checkpoint kept")
    for other in (passing(card, gone, there, **own), passing(card, before, **own)):
        expect_text(other.reasons[0], "other reasons 0")
    assert "keeps no checkpoint" not in passing(card, gone).sentence  # Ray keeps them


def test_above_a_hundred_percent_a_band_is_no_number(card: Card) -> None:
    noisy = card.repetition.model_copy(update={**NOISY, "hidden_part": 280.0})

    less = passing(card).model_copy(update={"repetition": noisy})

    expect_text(str(noisy), "noisy")
    (reason,) = less.reasons
    expect_text(reason, "less")
    assert "e+0" not in printed(less)


def test_a_group_in_which_every_restart_began_anew_is_no_pass(card: Card) -> None:
    good = passing(card)
    lost = GroupCoverage(
        group="node lost", tried=1, chosen=1, places=4, why_none=None, resumes=True
    )
    runs = (run_of(0), anew(1).model_copy(update={"group": "node lost"}))

    less = good.model_copy(update={"covered": (*good.covered, lost), "runs": runs})

    expect_text(less.sentence)


def test_a_save_that_ends_training_needs_no_resume(card: Card) -> None:
    good = passing(card)
    ended = GroupCoverage(
        group="inside a save", tried=1, chosen=1, places=1, why_none=None, resumes=True
    )
    idle = run_of(1).model_copy(
        update={"group": "inside a save", "resumed": 0, "had_nothing_left": True}
    )

    card = good.model_copy(update={"covered": (*good.covered, ended), "runs": (run_of(0), idle)})

    assert "no restart went on" not in card.sentence


def printed(card: Card, *, framed: bool = False) -> str:
    out = io.StringIO()
    console = Console(
        file=out, width=80, force_terminal=framed, highlight=False, no_color=True, color_system=None
    )
    print_parts(list_parts(card), console)
    return out.getvalue()
