"""Findings grouped by cause, and the card on a terminal and as a page."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from chaos.audit.audit import Choice
from chaos.audit.budget import Progress
from chaos.audit.card import Card
from chaos.audit.finding import findings
from chaos.audit.group import GROUPS, chosen_groups
from chaos.audit.live import AuditDisplay
from chaos.audit.page import facts, render_card
from chaos.audit.struck import Defect, StruckRun, gist
from chaos.audit.table import cells, check_rows, columns, group_rows
from chaos.audit.terminal import show_card
from chaos.errors import UsageError
from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.model.plan import Op
from chaos.model.trigger import AtStep
from chaos.report.moving import PARTS
from tests.audit.backend import FakeBackend, audit_of, loses_momentum

EPOCHS = Defect(check="epochs", gist="N epoch were trained, the baseline has N")
CURSOR = Defect(check="cursor", gist="rank N repeated N step of epoch N after the restart")
PARTED = Defect(check="trajectory", gist="the numbers differ")


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Card:
    backend = FakeBackend(epochs=20, defect=loses_momentum)
    return audit_of(tmp_path_factory.mktemp("card"), backend, choice=Choice(limit=40)).run()


def run_of(number: int, *defects: Defect, steps: tuple[int, ...] = (3,), **fault: Any) -> StruckRun:
    fault = fault or {"kill_worker": KillWorker()}
    ops = (Op(index=n, at=AtStep(epoch=1, step=s, rank=0), **fault) for n, s in enumerate(steps))
    return StruckRun(
        number=number,
        name=f"place {number}",
        group="mid-epoch",
        ops=tuple(ops),
        validity="invalid" if defects else "valid",
        headline=f"Run {number}.",
        defects=defects,
        evidence=("epochs",),
        undecided=(),
        landed=1,
        attempts=2,
        lost_steps=number,
        seconds=0.1,
    )


def test_one_cause_at_many_places_is_one_finding() -> None:
    [found] = findings([run_of(n, EPOCHS, PARTED) for n in range(5)])

    assert found.runs == (0, 1, 2, 3, 4)
    assert found.defect == EPOCHS


def test_a_run_that_shows_a_more_frequent_cause_besides_belongs_to_it() -> None:
    often = [run_of(n, EPOCHS, PARTED) for n in range(3)]

    [found] = findings([*often, run_of(9, CURSOR, EPOCHS, PARTED)])

    assert found.defect == EPOCHS
    assert found.count == 4


def test_numbers_that_part_do_not_hide_a_defect_that_says_more() -> None:
    often = [run_of(n, PARTED) for n in range(6)]

    found = findings([*often, run_of(9, EPOCHS, PARTED)])

    assert [(one.defect, one.count) for one in found] == [(PARTED, 6), (EPOCHS, 1)]


def test_the_smallest_reproduction_has_the_fewest_ops_then_the_simplest_then_the_first() -> None:
    runs = [
        run_of(0, PARTED, steps=(1, 2)),
        run_of(1, PARTED, steps=(1,), kill_node=KillNode()),
        run_of(2, PARTED, steps=(5,)),
        run_of(3, PARTED, steps=(4,)),
    ]

    [found] = findings(runs)

    assert found.smallest.number == 3


def test_two_causes_of_one_check_have_files_of_their_own() -> None:
    other = Defect(check="trajectory", gist="something else")

    names = [
        one.repro for one in findings([run_of(0, PARTED), run_of(1, PARTED), run_of(2, other)])
    ]

    assert names == ["repro/trajectory.chaos.yaml", "repro/trajectory_2.chaos.yaml"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1 epoch were trained, the baseline has 4", "6 epochs were trained, the baseline has 4"),
        ("handed checkpoint_a_1 (epoch 0)", "handed checkpoint_b_2 (epoch 3)"),
        ("slower by 1.5e-3 s (and 3 more)", "slower by 20 s"),
    ],
)
def test_a_gist_has_nothing_of_the_place(one: str, other: str) -> None:
    assert gist(one) == gist(other)


def test_different_defects_have_different_gists() -> None:
    assert gist("rank 1 repeated 2 steps") != gist("rank 1 skipped 2 steps")


def test_the_heat_map_counts_every_run_once_in_few_enough_columns(card: Card) -> None:
    assert sum(cell.total for cell in cells(card)) == len(card.runs)
    assert len(columns(card)) <= 16
    assert columns(card)[:2] == ("0-1", "2-3")


def test_the_tables_agree_with_the_runs(card: Card) -> None:
    rows = group_rows(card)

    assert sum(row.survived for row in rows) == card.survived
    assert sum(row.broken for row in rows) == card.broken
    for row in check_rows(card):
        assert row.with_evidence + row.nothing_due + row.unknown == len(card.runs)


def test_the_card_fits_a_terminal_of_80_columns_and_cuts_nothing(card: Card) -> None:
    out = io.StringIO()

    Console(file=out, width=80, highlight=False).print(show_card(card))

    text = out.getvalue()
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    assert "trajectory.chaos.yaml" in re.sub(r"[│\s]", "", text)
    assert "left out by the sample" in text


def test_the_page_says_what_was_found_and_loads_nothing(card: Card) -> None:
    page = render_card(card)

    assert card.sentence[1:] in page
    assert "repro/trajectory.chaos.yaml" in page
    assert card.findings[0].smallest.headline.replace("'", "&#39;") in page
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', page)
    assert page.count('data-spec="spec-heatmap"') == 1


def test_no_name_of_a_job_can_break_out_of_the_page(card: Card) -> None:
    evil = "</script><img src=x onerror=alert(1)>"
    job = card.job.model_copy(update={"script": evil})

    page = render_card(card.model_copy(update={"job": job, "command": evil}))

    assert evil not in page


def test_an_audit_that_struck_nothing_is_no_success(card: Card) -> None:
    empty = card.model_copy(update={"runs": (), "findings": ()})

    assert empty.exit_code == 2
    assert "nothing is known" in render_card(empty)


def test_places_are_chosen_by_any_part_of_their_names() -> None:
    assert chosen_groups([]) == GROUPS
    assert chosen_groups(["upload"]) == ("upload begins", "upload ends")
    assert chosen_groups(["node lost; mid-epoch"]) == ("mid-epoch", "node lost")


def test_a_group_that_does_not_exist_is_refused_with_the_ones_that_do() -> None:
    with pytest.raises(UsageError, match=r"no group of places is called 'lunch'.*mid-epoch"):
        chosen_groups(["lunch"])


def test_a_card_can_be_read_where_it_lies(card: Card) -> None:
    assert Path(card.folder, "card.html").is_file()


def test_progress_is_a_few_lines_where_there_is_no_terminal(card: Card) -> None:
    out = io.StringIO()
    total = 200

    with AuditDisplay(Console(file=out, width=80, highlight=False)) as display:
        for done in range(total + 1):
            display.show(Progress("strikes", done, total, 9.0, card.runs[0]))

    lines = out.getvalue().splitlines()
    assert len(lines) == PARTS + 1
    assert lines[1].startswith("strikes  20/200  9 s left  ")


def test_progress_is_one_line_that_moves_on_a_terminal(card: Card) -> None:
    out = io.StringIO()

    with AuditDisplay(Console(file=out, width=80, force_terminal=True)) as display:
        display.show(Progress("strikes", 1, 2, 3.0, card.runs[0]))

    assert "1/2" in out.getvalue()


def test_steps_that_nobody_saw_are_not_counted_as_none_lost(card: Card) -> None:
    blind = tuple(run.model_copy(update={"lost_steps": None}) for run in card.runs)
    unseen = card.model_copy(update={"runs": blind})

    [row, *_] = [row for row in group_rows(unseen) if row.struck]
    assert (row.lost_max, row.lost_mean) == (None, None)
    assert all(cell.lost_max is None for cell in cells(unseen))
    assert {fact.name: fact.value for fact in facts(unseen)}["steps lost, worst"] == "-"
    assert re.search(r"\d of \d +- +-", printed(unseen))
    assert '<td class="num">-</td>' in render_card(unseen)


def test_the_card_says_how_large_the_job_is(card: Card) -> None:
    size = "2 ranks, 20 epochs of up to 6 steps, 120 steps per rank, 20 checkpoints"

    assert card.size == size
    assert size in " ".join(printed(card).split())
    assert size in render_card(card)


def test_of_a_job_that_may_not_be_preempted_the_card_says_what_it_was_given(card: Card) -> None:
    runs = (run_of(0), run_of(1, preempt_node=PreemptNode(notice_s=1.0)))
    job = card.job.model_copy(update={"own_preemptions": 0})

    survivor = card.model_copy(update={"runs": runs, "findings": (), "job": job})

    assert "max_preemption_failures: 0" in survivor.sentence


def printed(card: Card) -> str:
    out = io.StringIO()
    Console(file=out, width=80, force_terminal=False).print(show_card(card))
    return out.getvalue()
