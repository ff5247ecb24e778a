"""Saves that are known before any was read: shards, and files with enough of what is trained."""

from functools import partial

import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.verdict import CheckResult
from tests.check.shorthand import plan_of, told_in
from tests.check.tamper import changed
from tests.findings import expect_finding

SHARDS = "w:a_{0}/__0.distcp w:a_{0}/.metadata"
CLEAN = f"g s {SHARDS.format(1)} s r c- s {SHARDS.format(2)} s r c- s s r c- ."
ANEW = "s s r c- s s r c- s s r c- ."


def with_shares(history: History, shares: dict[str, float | None]) -> History:
    """Put a share of what is trained into files; those of shards are of no known saver."""
    for name, share in shares.items():
        history = changed(history, ev.FileSaved, partial(_is_of, name), share=share)
    return changed(history, ev.FileSaveBegun, partial(_is_of, "a_"), saver="distcp")


def _is_of(name: str, event: ev.FileSaved | ev.FileSaveBegun) -> bool:
    return event.path.startswith(name)


def resume_point(line: str, clean: str = CLEAN, **shares: float | None) -> CheckResult:
    run, baseline = (with_shares(told_in(one), shares) for one in (line, clean))
    found = judge(plan_of(line), run, baseline)
    return next(result for result in found.results if result.check == "resume-point")


@pytest.mark.parametrize(
    ("next_save", "found", "loss"),
    [
        ("w:a_2/__0.distcp ", "q:a_2/__0.distcp", "removed before the next was whole"),
        ("", "q", "removed"),
    ],
)
def test_a_sharded_save_that_is_removed_too_early_is_lost(
    next_save: str, found: str, loss: str
) -> None:
    first = f"g s {SHARDS.format(1)} s r c- s s remove:a_1/.metadata {next_save}"

    result = resume_point(f"{first}x g {found} {ANEW}")

    assert result.status == "fail"
    expect_finding(
        result,
        "saves-gone",
        attempt=1,
        newest={"path": "a_1", "place": (0, 1)},
        loss=loss,
        removed_at=(1, 2),
        severity="work lost",
    )


def test_a_sharded_save_that_nobody_read_is_named_by_its_folder() -> None:
    line = f"g s {SHARDS.format(1)} s r c- s x g q:a_1/__0.distcp,a_1/.metadata {ANEW}"

    expect_finding(
        resume_point(line),
        "saves-ignored",
        attempt=1,
        newest={"path": "a_1", "place": (0, 1)},
        severity="work lost",
    )


def test_shards_without_their_index_are_no_save() -> None:
    line = f"g s w:a_1/__0.distcp s x g q:a_1/__0.distcp {ANEW}"

    assert resume_point(line).status == "pass"


@pytest.mark.parametrize(
    ("shares", "status"),
    [({"sched": 0.01}, "pass"), ({"sched": 0.5}, "fail"), ({"sched": None}, "fail")],
)
def test_a_file_with_a_few_numbers_is_no_save(shares: dict[str, float | None], status: str) -> None:
    line = f"g s w:sched w:a_1/__0.distcp s r c- s x g q:sched,a_1/__0.distcp {ANEW}"
    clean = f"g s w:sched {SHARDS.format(1)} s r c- s s r c- s s r c- ."

    assert resume_point(line, clean, **shares).status == status


def test_a_save_of_several_small_files_is_one() -> None:
    line = f"g s w:half_1 w:half_2 s r c- s x g q:half_1,half_2 {ANEW}"
    clean = "g s w:half_1 w:half_2 s r c- s s r c- s s r c- ."

    assert resume_point(line, clean, half_1=0.3, half_2=0.3).status == "fail"
    assert resume_point(line, clean, half_1=0.1, half_2=0.1).status == "pass"


def test_an_export_beside_shards_is_no_save() -> None:
    """The model is seen in it alone: the rest of what is trained is in the shards."""
    model = ev.Component(name="model", digest="m", size=5.000001, count=2)
    part = ev.SavedPart(name="net", digest="n", kind="numbers", size=5.000001)
    line = f"g @model=m s w:ship s r c- x g q:ship {ANEW}"
    clean = f"g @model=m s w:ship {SHARDS.format(1)} s r c- s s r c- s s r c- ."
    run, baseline = (
        changed(
            changed(told_in(one), ev.StateSeen, components=(model,)),
            ev.FileSaved,
            lambda e: e.path == "ship",
            parts=(part,),
        )
        for one in (line, clean)
    )

    found = judge(plan_of(line), run, baseline)

    assert next(r for r in found.results if r.check == "resume-point").status == "pass"


@pytest.mark.parametrize(
    ("removed", "words"),
    [
        ("f_10", "f_10 of epoch 2, step 1 had been saved, and the job removed it at epoch 2"),
        ("f_1", ""),
    ],
)
def test_the_newest_save_is_not_the_one_to_remove(removed: str, words: str) -> None:
    # A job that sorts the names of its saves as text removes f_10 for the oldest.
    begin = "g s w:f_1 s r c- s w:f_2 s r c- "
    clean = f"{begin}s w:f_10 remove:{removed} s r c- s s r c- ."
    kept, resumed = ("f_1,f_2", "f_2") if removed == "f_10" else ("f_2,f_10", "f_10")
    again = "s s r c- s s r c- ." if removed == "f_10" else "s s r c- ."
    line = f"{begin}s w:f_10 remove:{removed} s r c- s x g q:{kept} l:{resumed} {again}"

    found = judge(plan_of(line), told_in(line), told_in(clean))
    point = next(result for result in found.results if result.check == "resume-point")

    assert point.status == ("fail" if words else "pass"), point.summary
    assert words in point.summary


def test_a_save_of_which_a_part_is_missing_that_a_later_start_reads_is_not_whole() -> None:
    clean = "g s w:a_1 w:b_1 s r c- s s r c- s s r c- ."
    line = (
        "g s w:a_1 s x g q:a_1 s w:a_1 w:b_1 s r c- s x g q:a_1,b_1 l:a_1 l:b_1 "
        "s w:b_1 s r c- s s r c- ."
    )

    found = judge(plan_of(line), told_in(line), told_in(clean))

    point = next(result for result in found.results if result.check == "resume-point")
    assert "attempt 1" not in point.summary


def test_a_whole_file_that_has_not_got_its_name_yet_is_no_save() -> None:
    # Of one rank. That it is no part of a save of all ranks, `agreed_echoes` of the corpus shows.
    begin = "g s w:1.part rename:1.part>f_1 s r c- s w:2.part "
    clean = f"{begin}rename:2.part>f_2 s r c- s s r c- ."
    line = f"{begin}x g q:f_1,2.part l:f_1 s s r c- s s r c- ."

    found = judge(plan_of(line), told_in(line), told_in(clean))

    point = next(result for result in found.results if result.check == "resume-point")
    assert "2.part" not in point.summary


@pytest.mark.parametrize(
    ("opened", "seen", "status"),
    [
        ("open:a_1/whole ", "a_1/rank.pt", "pass"),
        ("open:a_1/whole ", "a_1/rank.pt,a_1/whole", "fail"),
        ("open:a_1/whole.part remove:a_1/whole.part ", "a_1/rank.pt", "fail"),
    ],
)
def test_a_save_whose_mark_is_missing_is_not_whole(opened: str, seen: str, status: str) -> None:
    # A thread copies the parts of a save to their place, and then the mark that it is whole.
    clean = f"g s w:a_1/rank.pt s {opened}r c- s w:a_2/rank.pt s r c- s s r c- ."
    line = (
        f"g s w:a_1/rank.pt s x g q:{seen} s w:a_1/rank.pt s {opened}r c- "
        f"s x g q:a_1/rank.pt,a_1/whole l:a_1/rank.pt s s r c- s s r c- ."
    )

    found = judge(plan_of(line), told_in(line), told_in(clean))

    scratch_starts = [
        anomaly
        for result in found.results
        for anomaly in result.anomalies
        if anomaly.kind == "saves-ignored"
    ]
    assert bool(scratch_starts) is (status == "fail")


def test_a_save_is_whole_beside_later_ones_of_its_folder_that_are_still_to_come() -> None:
    clean = "g s w:run_1/f_1 s r c- s w:run_1/f_2 s r c- s s r c- ."
    line = f"g s w:run_1/f_1 s r c- s x g q:run_1/f_1 {ANEW}"

    assert resume_point(line, clean).status == "fail"
