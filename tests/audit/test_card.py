"""Findings grouped by cause, and the card on a terminal and as a page."""

import io
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from chaos.audit.audit import SiteChoice
from chaos.audit.budget import AuditProgress
from chaos.audit.card import Card, GroupCoverage
from chaos.audit.card_writer import _note_accepted
from chaos.audit.finding import group_findings
from chaos.audit.page import render_card
from chaos.audit.parts import list_figures, list_parts
from chaos.audit.run_row import Defect, RunRow
from chaos.audit.sections import describe_equal_results
from chaos.audit.site_category import SITE_CATEGORIES, select_site_categories
from chaos.audit.table import (
    build_cells,
    build_check_rows,
    count_places_by_column,
    count_results,
    group_rows,
    kind_rows,
    label_columns,
    part_rows,
)
from chaos.errors import UsageError
from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.model.diagnosis import Standing
from chaos.model.plan import Op
from chaos.model.trigger import AtStep
from chaos.report.live import PARTS
from chaos.report.terminal_parts import print_parts
from chaos.screens.audit import AuditDisplay
from tests.accepted import expect_text
from tests.audit.backend import FakeBackend, Ticking, audit_of, loses_momentum

EPOCHS = Defect(check="epochs", kind="surplus-epochs")
CURSOR = Defect(check="cursor", kind="steps-repeated")
PARTED = Defect(check="trajectory", kind="numbers-differ")


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Card:
    backend = FakeBackend(epochs=20, defect=loses_momentum)
    return audit_of(tmp_path_factory.mktemp("card"), backend, choice=SiteChoice(limit=40)).run()


def lost_part(name: str) -> Defect:
    return Defect(check="state", kind="part-lost", parts=(name,), sentence=f"{name} is gone")


def run_of(number: int, *defects: Defect, steps: tuple[int, ...] = (3,), **fault: Any) -> RunRow:
    fault = fault or {"kill_worker": KillWorker()}
    ops = (Op(index=n, at=AtStep(epoch=1, step=s, rank=0), **fault) for n, s in enumerate(steps))
    return RunRow(
        number=number,
        name=f"place {number}",
        group="mid-epoch",
        ops=tuple(ops),
        status="fail" if defects else "pass",
        headline=f"Run {number}.",
        defects=defects,
        evidence=("epochs",),
        undecided=(),
        landed=1,
        attempts=2,
        lost_steps=number,
        seconds=0.1,
        resumed=1,
    )


def test_one_cause_at_many_places_is_one_finding() -> None:
    [found] = group_findings([run_of(n, EPOCHS, PARTED) for n in range(5)])

    assert found.runs == (0, 1, 2, 3, 4)
    assert found.defect == EPOCHS.key


def test_one_part_that_is_lost_is_one_cause_whatever_is_lost_with_it() -> None:
    def lost(*parts: str) -> Defect:
        return Defect(check="state", kind="part-lost", parts=parts)

    alone, more, model = lost("momentum"), lost("momentum", "lr"), lost("model", "momentum")

    found = group_findings([run_of(1, alone), run_of(2, more), run_of(3, more), run_of(4, model)])

    assert [(one.defect, one.runs) for one in found] == [
        (alone.key, (1, 2, 3)),
        (model.key, (4,)),
    ]


def test_a_run_that_shows_a_more_frequent_cause_besides_belongs_to_it() -> None:
    often = [run_of(n, EPOCHS, PARTED) for n in range(3)]

    [found] = group_findings([*often, run_of(9, CURSOR, EPOCHS, PARTED)])

    assert found.defect == EPOCHS.key
    assert found.count == 4


def test_a_place_in_the_data_is_one_cause_whichever_sign_of_it_shows() -> None:
    samples = Defect(check="samples", kind="samples-missing")
    order = Defect(check="sample-order", kind="another-order", severity="not reproducible")

    [found] = group_findings(
        [run_of(1, CURSOR), run_of(2, samples), run_of(3, samples), run_of(4, order, PARTED)]
    )

    assert (found.defect, found.runs, found.severity) == (
        samples.key,
        (1, 2, 3, 4),
        "wrong result",
    )
    assert found.smallest.number == 2


def test_a_place_in_the_data_is_a_second_cause_beside_what_chooses_no_inputs() -> None:
    samples = Defect(check="samples", kind="samples-missing", sentence="few samples")
    order = Defect(check="sample-order", kind="another-order", sentence="another order")
    rate = Defect(check="state", kind="part-lost", parts=("optimizer.lr",), sentence="lr is gone")
    model = Defect(check="state", kind="part-lost", parts=("model", "optimizer.lr"))

    both = group_findings([run_of(1, rate, order, samples).replace(faults="a fault; ")])

    assert [(one.defect, one.headline) for one in both] == [
        (rate.key, "Run 1."),
        (order.key, "A fault; another order."),
    ]
    assert [one.besides for one in both] == [(), ("state",)]
    assert len(group_findings([run_of(1, model, order)])) == 1


@pytest.mark.parametrize(
    ("wrong", "right", "parts", "words"),
    [
        (True, (False, False), ("rng.torch",), "a DataLoader without a `generator` draws"),
        (True, (False, False), ("model",), "(1 of 1, and none of 2 from an epoch's beginning)."),
        (True, (False,), ("model",), None),
        (True, (False, False, True), ("model",), None),
        (False, (False, False), ("model",), None),
    ],
)
def test_a_cause_that_shows_within_an_epoch_alone_says_so(
    wrong: bool, right: tuple[bool, ...], parts: tuple[str, ...], words: str | None
) -> None:
    lost = run_of(0, Defect(check="state", kind="part-lost", parts=parts))
    runs = [lost, *(run_of(1 + number) for number in range(len(right)))]
    told = [
        run.model_copy(update={"within": within})
        for run, within in zip(runs, (wrong, *right), strict=True)
    ]

    [found] = group_findings(told)

    assert (words is not None) == ("Only resumes from within an" in found.headline)
    assert words is None or words in found.headline


def test_each_of_two_causes_has_a_sentence_of_its_own() -> None:
    momentum, rate = lost_part("momentum"), lost_part("lr")

    found = group_findings([run_of(1, momentum, rate).replace(faults="a fault; ")])

    assert [one.headline for one in found] == ["Run 1.", "A fault; lr is gone."]


def test_the_example_of_a_cause_shows_that_cause_alone() -> None:
    momentum, rate = lost_part("momentum"), lost_part("lr")
    runs = [run_of(1, momentum, rate), run_of(2, rate, momentum), run_of(3, rate)]
    found = group_findings([run.replace(faults="a fault; ") for run in runs])

    assert [(one.defect, one.smallest.number) for one in found] == [
        (rate.key, 3),
        (momentum.key, 1),
    ]
    assert len({one.headline for one in found}) == len(found) == 2


def test_numbers_that_part_do_not_hide_a_defect_that_says_more() -> None:
    often = [run_of(n, PARTED) for n in range(6)]

    found = group_findings([*often, run_of(9, EPOCHS, PARTED)])

    assert [(one.defect, one.count) for one in found] == [(PARTED.key, 6), (EPOCHS.key, 1)]


def test_the_smallest_reproduction_has_the_fewest_ops_then_the_simplest_then_the_first() -> None:
    runs = [
        run_of(0, PARTED, steps=(1, 2)),
        run_of(1, PARTED, steps=(1,), kill_node=KillNode()),
        run_of(2, PARTED, steps=(5,)),
        run_of(3, PARTED, steps=(4,)),
    ]

    [found] = group_findings(runs)

    assert found.smallest.number == 3


def test_two_causes_of_one_check_have_files_of_their_own() -> None:
    other = Defect(check="trajectory", kind="something-else")

    names = [
        one.repro
        for one in group_findings([run_of(0, PARTED), run_of(1, PARTED), run_of(2, other)])
    ]

    assert names == ["repro/trajectory.chaos.yaml", "repro/trajectory_2.chaos.yaml"]


def test_one_kind_of_finding_is_one_cause_whatever_its_numbers_are() -> None:
    runs = [
        run_of(n, EPOCHS.replace(facts={"count": n}, sentence=f"{n} epochs were trained"))
        for n in (5, 6)
    ]

    [found] = group_findings(runs)

    assert (found.defect, found.facts) == (EPOCHS.key, {"count": 5})
    assert found.headline == "Run 5."


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


def test_places_are_chosen_by_any_part_of_their_names() -> None:
    assert select_site_categories([]) == SITE_CATEGORIES
    assert select_site_categories(["upload"]) == ("upload begins", "upload ends")
    assert select_site_categories(["node lost; mid-epoch"]) == ("mid-epoch", "node lost")


def test_a_group_that_does_not_exist_is_refused_with_the_ones_that_do() -> None:
    with pytest.raises(UsageError, match=r"no group of places is called 'lunch'.*mid-epoch"):
        select_site_categories(["lunch"])


def test_a_card_can_be_read_where_it_lies(card: Card) -> None:
    assert Path(card.folder, "card.html").is_file()


def test_progress_is_a_few_lines_where_there_is_no_terminal(card: Card) -> None:
    out = io.StringIO()
    total = 200

    with AuditDisplay(Console(file=out, width=80, highlight=False), Ticking()) as display:
        for done in range(total + 1):
            display.show(AuditProgress("faults", done, total, 9.0, card.runs[0], 2, 4.0))

    found, *lines = out.getvalue().splitlines()
    assert found == f"found: {card.runs[0].headline}"  # once, and whole
    assert len(lines) == PARTS + 1
    expect_text(lines[1])


def test_progress_is_one_line_that_moves_on_a_terminal(card: Card) -> None:
    out = io.StringIO()

    console = Console(file=out, width=80, force_terminal=True)
    with AuditDisplay(console, Ticking()) as display:
        display.show(AuditProgress("faults", 1, 2, 3.0, card.runs[0]))

    assert "1/2 places" in out.getvalue()


def told(display: AuditDisplay, progress: AuditProgress) -> str:
    display.show(progress)
    return display.__rich__().plain


def test_seconds_pass_in_the_line_without_any_news() -> None:
    clock = Ticking(tick_ns=0)
    display = AuditDisplay(Console(file=io.StringIO(), width=80), clock)

    first = told(display, AuditProgress("clean run", 0, 2, activity="its script starts: imports"))
    clock.sleep(12)

    expect_text(first, "first")
    expect_text(display.__rich__().plain, "display __rich__ plain")


def test_time_that_is_left_and_grows_is_explained() -> None:
    display = AuditDisplay(Console(file=io.StringIO(), width=80), Ticking(tick_ns=0))
    of = partial(AuditProgress, "faults")

    lines = [
        told(display, of(4, 20, 40.0, spent_s=20.0)),
        told(display, of(5, 20, 90.0, spent_s=25.0)),
        told(display, of(6, 30, 180.0, spent_s=30.0)),
        told(display, of(7, 30, 170.0, spent_s=40.0)),
        told(display, of(31, None, 20.0, spent_s=40.0, limit_s=60.0)),
    ]

    expect_text("\n".join(lines))


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


# -- the answer ----------------------------------------------------------------------------


def passing(card: Card, *runs: RunRow, **job: Any) -> Card:
    """Return a card of these runs with nothing to object to but what they show."""
    middle = GroupCoverage(
        group="mid-epoch", tried=1, chosen=1, places=9, why_none=None, resumes=True
    )
    update = {
        "runs": runs or (run_of(0),),
        "findings": (),
        "covered": (middle,),
        "job": card.job.model_copy(update=job),
        "ended": "all",
        "missing_parts": (),
    }
    return card.model_copy(update=update)


def test_a_run_with_a_right_resume_in_each_group_passes(card: Card) -> None:
    expect_text(passing(card).sentence)
    assert passing(card).exit_code == 0


def test_what_is_accepted_is_told_and_is_no_failure(card: Card) -> None:
    run = run_of(0).replace(accepted=(PARTED,))

    accepting = passing(card, run).model_copy(update={"accept": ("rng",)})

    assert accepting.exit_code == 0
    expect_text(accepting.sentence)


def test_a_pass_names_the_finding_that_was_accepted_and_its_reason(card: Card) -> None:
    accepted = EPOCHS.replace(accepted_reasons=("we train one more",), sentence="5 epochs")
    runs = [run_of(n).replace(accepted=(accepted,)) for n in range(2)]

    [note] = _note_accepted(runs)

    expect_text(passing(card, *runs).sentence, "passing card runs sentence")
    assert note.kind == "accepted"
    expect_text(note.text, "note text")


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
