"""Files of the job that a later attempt cannot read, or cannot go on from."""

import pytest

from chaos.model import event as ev
from chaos.model.verdict import Verdict
from tests.check.each import judge_each
from tests.check.shorthand import plan_of, told_in
from tests.check.tamper import without
from tests.findings import expect_finding

BASELINE = "g s w:f_1 s r c- s w:f_2 s r c- s w:f_10 s r c- s w:f_11 s r c- ."


def verdict(run: str, baseline: str = BASELINE) -> Verdict:
    return judge_each(plan_of(run), told_in(run), told_in(baseline))


def test_a_file_whose_writing_was_cut_off_is_named_with_its_path() -> None:
    found = verdict("g s w:f s r c- s s r c- s v:f x g l:f! g l:f! L")

    assert found.broken[0].check == "checkpoints"
    expect_finding(
        found.broken[0],
        "file-cut-short",
        rank=0,
        attempt=1,
        path="f",
        error="EOFError: ran out of input",
        writing_rank=1,
    )
    assert len(found.broken[0].anomalies) == 1


@pytest.mark.parametrize(
    "run",
    [
        "g l:pretrained s w:f s r c- s s r c- s v:f x g l:f! g l:f! L",
        "g l:pretrained! s w:f s r c- s s r c- s v:f x g l:other! l:f! g l:f! L",
        "g s w:f s r c- s s r c- s v:f x g l:f! x g l:f! L",
    ],
)
def test_a_read_that_failed_is_found_after_others_that_are_no_matter(run: str) -> None:
    results = verdict(run).results

    checkpoints = next(r for r in results if r.check == "checkpoints")
    expect_finding(checkpoints, "file-cut-short", path="f", writing_rank=1)


def test_a_file_that_another_rank_wrote_too_is_torn_by_the_one_that_was_cut_off() -> None:
    line = "g s w:f s r c- s s r c- s w:f x g l:f! g l:f! L"
    *_, (_, last) = told_in(line).select_events(ev.FileSaved)
    history = without(
        told_in(line),
        ev.FileSaved,
        lambda e: (e.rank, e.epoch, e.step) == (0, last.epoch, last.step),
    )

    results = judge_each(plan_of(line), history, told_in(BASELINE)).results

    checkpoints = next(r for r in results if r.check == "checkpoints")
    expect_finding(checkpoints, "file-cut-short", path="f", writing_rank=0)


def test_a_failed_load_is_named_before_all_that_follows_from_it() -> None:
    found = verdict("g s s r c s x g<c0 l:m.pt! s s r c s s r c .", "g s s r c s s r c .")

    assert found.broken[0].check == "start-decision"
